"""Runs a program on a pseudo-terminal and copies to stdout what it draws there; exits with the program's code.

Usage: on_terminal.py COLUMNS ROWS PROGRAM ARGUMENT...

It interprets nothing: the test knows what a terminal makes of it. The terminal itself makes two characters of a newline.
"""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios


def main(columns, rows, *command):
    ours, of_program = pty.openpty()
    size = struct.pack("HHHH", int(rows), int(columns), 0, 0)
    fcntl.ioctl(of_program, termios.TIOCSWINSZ, size)
    program = subprocess.Popen(command, stdin=of_program, stdout=of_program, stderr=of_program)
    os.close(of_program)
    while True:
        try:
            drawn = os.read(ours, 65536)
        except OSError:
            # Linux: nobody has the terminal open any more.
            break
        if not drawn:
            break
        sys.stdout.buffer.write(drawn)
    return program.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
