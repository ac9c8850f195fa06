//! Pictures of parts of the page as coarse grids of colours, and their comparison with kept ones.
//!
//! A kept picture is a text: its size, then a line for each row of blocks, with the mean colour of each block. The browser
//! itself makes the blocks from its screenshot. `golden` decides what to draw, and when.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::chromium::Page;

/// With this variable set to `1`, the tests replace the kept pictures.
const UPDATE: &str = "SQUALL_UPDATE_PICTURES";

/// About the size of a block in CSS pixels, and the most blocks across and down, which keep the texts small.
const BLOCK: u32 = 12;
const BLOCKS_AT_MOST: u32 = 48;

/// How much a channel of a block's mean may differ, of 255. Another Chromium may round an edge to the next pixel: where ink
/// meets paper, that is a twelfth of a block, and at most 21.
const BLOCK_TOLERANCE: u8 = 24;

/// How much the blocks may differ on average: far less, because few of them have an edge. Lines that are missing everywhere
/// change each block by little, but most of them.
const MEAN_TOLERANCE: f64 = 1.5;

/// From a PNG in base64 to the mean colour of each block, row by row. The page may load no image, so that it is decoded
/// from memory.
const BLOCKS_OF: &str = r#"async (png, columns, rows) => {
  const bytes = Uint8Array.from(atob(png), (character) => character.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const { width, height } = image;
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const sums = Array.from({ length: columns * rows }, () => [0, 0, 0, 0]);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const sum = sums[Math.floor((y * rows) / height) * columns + Math.floor((x * columns) / width)];
      for (let channel = 0; channel < 3; channel++) sum[channel] += data[4 * (y * width + x) + channel];
      sum[3] += 1;
    }
  }
  return sums.map(([red, green, blue, count]) => [red, green, blue].map((sum) => Math.round(sum / Math.max(count, 1))));
}"#;

/// A picture: its size in CSS pixels, and the mean colour of each block, row by row.
#[derive(Debug, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    columns: u32,
    rows: u32,
    blocks: Vec<[u8; 3]>,
}

/// Compares an element with the kept picture of this name, such as `desk/bars`. With [`UPDATE`], replaces that picture
/// instead.
pub fn check(page: &mut Page, name: &str, selector: &str) -> Result<(), String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/integration/golden")
        .join(format!("{name}.txt"));
    if std::env::var_os(UPDATE).is_some_and(|value| value == "1") {
        let picture = Picture::take(page, name, selector, None);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, picture.text()).unwrap();
        return Ok(());
    }
    let kept = std::fs::read_to_string(&file)
        .map_err(|error| format!("{name}: {}: {error}", file.display()))?;
    let kept = Picture::parse(&kept);
    let drawn = Picture::take(page, name, selector, Some(&kept));
    let compared = drawn.compare(&kept);
    compared.map_err(|said| {
        let picture = png_file(name);
        format!("{name}: {said}; it is {}", picture.display())
    })
}

/// How to refresh the kept pictures.
pub fn how_to_update() -> String {
    format!("If the new pictures are right, run the tests with {UPDATE}=1 to keep them.")
}

/// Where the last picture of this name is, for inspection.
fn png_file(name: &str) -> PathBuf {
    let file = format!("picture-{}.png", name.replace('/', "-"));
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file)
}

impl Picture {
    /// Takes the picture of an element, and writes it as a PNG of this name. It has as many blocks as `like`, if there is
    /// one.
    pub fn take(page: &mut Page, name: &str, selector: &str, like: Option<&Picture>) -> Picture {
        let place = page.eval(&format!(
            "(() => {{ const box = document.querySelector({selector:?}).getBoundingClientRect(); \
             const [x, y] = [Math.floor(box.left + scrollX), Math.floor(box.top + scrollY)]; \
             const [right, bottom] = [Math.ceil(box.right + scrollX), Math.ceil(box.bottom + scrollY)]; \
             return {{ x, y, width: right - x, height: bottom - y, scale: 1 }}; }})()"
        ));
        let size = |key: &str| u32::try_from(place[key].as_u64().unwrap()).unwrap();
        let (width, height) = (size("width"), size("height"));
        assert!(width > 0 && height > 0, "{name}: {selector} is not drawn");
        let (columns, rows) = match like {
            Some(like) => (like.columns, like.rows),
            None => (blocks_along(width), blocks_along(height)),
        };
        let screenshot = json!({ "format": "png", "clip": place });
        let taken = page.call("Page.captureScreenshot", screenshot);
        let png = taken["data"].as_str().unwrap();
        std::fs::write(png_file(name), STANDARD.decode(png).unwrap()).unwrap();
        let blocks = page.eval(&format!("({BLOCKS_OF})({png:?}, {columns}, {rows})"));
        Picture {
            width,
            height,
            columns,
            rows,
            blocks: serde_json::from_value(blocks).unwrap(),
        }
    }

    /// Whether both look alike; otherwise where they differ most.
    pub fn compare(&self, kept: &Picture) -> Result<(), String> {
        for (side, own, kept) in [
            ("wide", self.width, kept.width),
            ("high", self.height, kept.height),
        ] {
            // A line of text more or less is at least this much.
            if own.abs_diff(kept) > 2 + kept / 50 {
                return Err(format!("it is {own} px {side}, and was {kept} px"));
            }
        }
        assert_eq!(self.blocks.len(), kept.blocks.len());
        let difference = |(own, kept): (&[u8; 3], &[u8; 3])| {
            let channels = own.iter().zip(kept).map(|(own, kept)| own.abs_diff(*kept));
            channels.max().unwrap_or(0)
        };
        let pairs = self.blocks.iter().zip(&kept.blocks);
        let differences: Vec<u8> = pairs.map(difference).collect();
        let sum: f64 = differences.iter().map(|it| f64::from(*it)).sum();
        let mean = sum / differences.len() as f64;
        let places = differences.iter().enumerate();
        let (place, most) = places.max_by_key(|(_, it)| **it).unwrap();
        if *most <= BLOCK_TOLERANCE && mean <= MEAN_TOLERANCE {
            return Ok(());
        }
        let columns = self.columns as usize;
        Err(format!(
            "its blocks differ by {mean:.2} of 255 on average, and by {most} in column {} of row {}",
            place % columns + 1,
            place / columns + 1
        ))
    }

    pub fn text(&self) -> String {
        let mut text = format!("{} x {} px\n", self.width, self.height);
        for row in self.blocks.chunks(self.columns as usize) {
            let colours = row.iter();
            let words: Vec<String> = colours
                .map(|[red, green, blue]| format!("{red:02x}{green:02x}{blue:02x}"))
                .collect();
            text.push_str(&words.join(" "));
            text.push('\n');
        }
        text
    }

    pub fn parse(text: &str) -> Picture {
        let mut lines = text.lines();
        let size = lines.next().unwrap().strip_suffix(" px").unwrap();
        let (width, height) = size.split_once(" x ").unwrap();
        let rows: Vec<Vec<[u8; 3]>> = lines
            .map(|line| line.split(' ').map(colour).collect())
            .collect();
        Picture {
            width: width.parse().unwrap(),
            height: height.parse().unwrap(),
            columns: u32::try_from(rows[0].len()).unwrap(),
            rows: u32::try_from(rows.len()).unwrap(),
            blocks: rows.concat(),
        }
    }
}

/// How many blocks a side of this length has.
fn blocks_along(pixels: u32) -> u32 {
    pixels.div_ceil(BLOCK).min(BLOCKS_AT_MOST)
}

fn colour(word: &str) -> [u8; 3] {
    let [_, red, green, blue] = u32::from_str_radix(word, 16).unwrap().to_be_bytes();
    [red, green, blue]
}
