"""Makes blocks.ttf: every letter is the same small block, as wide as a letter is on average.

Pictures of the page in this font are alike on every machine, whatever fonts it has: golden.rs compares them. It has no
letter shapes, and a character without an entry here is drawn in a font of the machine.

    python3 -m pip install fonttools && python3 blocks.py
"""

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

# Basic Latin, Latin-1, punctuation, arrows, operators, geometric shapes, dingbats.
RANGES = [(0x21, 0x7E), (0xA1, 0xFF), (0x2010, 0x205E), (0x2190, 0x21FF), (0x2200, 0x22FF), (0x25A0, 0x25FF), (0x2700, 0x27BF)]
SPACES = [0x20, 0xA0, 0x2007, 0x2009, 0x202F]
WIDTH = 520


def block():
    pen = TTGlyphPen(None)
    pen.moveTo((60, 0))
    for corner in [(60, 500), (460, 500), (460, 0)]:
        pen.lineTo(corner)
    pen.closePath()
    return pen.glyph()


characters = {code: "block" for first, last in RANGES for code in range(first, last + 1)}
characters.update({code: "space" for code in SPACES})

font = FontBuilder(1000, isTTF=True)
font.setupGlyphOrder([".notdef", "space", "block"])
font.setupCharacterMap(characters)
font.setupGlyf({".notdef": block(), "space": TTGlyphPen(None).glyph(), "block": block()})
font.setupHorizontalMetrics({".notdef": (WIDTH, 60), "space": (WIDTH, 0), "block": (WIDTH, 60)})
font.setupHorizontalHeader(ascent=800, descent=-200)
font.setupNameTable({"familyName": "Blocks", "styleName": "Regular"})
font.setupOS2(sTypoAscender=800, sTypoDescender=-200, sTypoLineGap=0, usWinAscent=800, usWinDescent=200, sxHeight=500, sCapHeight=500)
font.setupPost()
# A fixed time, so that the same bytes are made again.
font.updateHead(created=0, modified=0)
font.font.recalcTimestamp = False
font.save("blocks.ttf")
