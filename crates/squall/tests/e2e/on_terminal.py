"""Runs a program on a pseudo-terminal and copies to stdout what it draws there; exits with the program's code.

Usage: on_terminal.py COLUMNS ROWS TEXT PROGRAM ARGUMENT...

Once the program has drawn TEXT twice, Ctrl-C is pressed; never if TEXT is empty. Nothing else is interpreted: the test knows
what a terminal makes of it. The terminal itself makes two characters of a newline.
"""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios


CTRL_C = b"\x03"


def control_by(terminal):
    """Makes the terminal that of this process, so that Ctrl-C reaches it."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def main(columns, rows, text, *command):
    ours, of_program = pty.openpty()
    size = struct.pack("HHHH", int(rows), int(columns), 0, 0)
    fcntl.ioctl(of_program, termios.TIOCSWINSZ, size)
    program = subprocess.Popen(
        command,
        stdin=of_program,
        stdout=of_program,
        stderr=of_program,
        preexec_fn=lambda: control_by(of_program),
    )
    os.close(of_program)
    everything = b""
    is_pressed = not text
    while True:
        try:
            drawn = os.read(ours, 65536)
        except OSError:
            # Linux: nobody has the terminal open any more.
            break
        if not drawn:
            break
        sys.stdout.buffer.write(drawn)
        everything += drawn
        if not is_pressed and everything.count(text.encode()) >= 2:
            os.write(ours, CTRL_C)
            is_pressed = True
    return program.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
