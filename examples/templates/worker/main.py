"""Runs continuously. The platform restarts the program if it ends."""

import os
import time


def work(turn):
    return f"INFO turn {turn}: nothing to do"  # read a queue, a mailbox or a web address here


def main():
    seconds = float(os.environ.get("INTERVAL_SECONDS", "10"))
    turn = 0
    while True:
        turn += 1
        print(work(turn))  # the output is the log
        time.sleep(seconds)


if __name__ == "__main__":
    main()
