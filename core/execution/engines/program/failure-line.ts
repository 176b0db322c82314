/** Only the end of stderr is searched. */
const SEARCHED_CHARACTERS = 64 * 1024;
const MAX_CHARACTERS = 500;
/** A traceback followed by more lines of other text did not end the program. */
const MAX_LINES_BEHIND = 20;

type Finder = (lines: readonly string[]) => string | undefined;

/**
 * Extracts the line of a failed program's stderr that says why it ended, at most 500 characters: the exception with its
 * cause if there is a stack or traceback of Node, Python, Java, Go, Rust or Ruby, otherwise the last nonempty line.
 * `undefined` if there is none. Messages of several lines are joined.
 */
export function failureLine(stderr: string): string | undefined {
  const lines = stderr
    .slice(-SEARCHED_CHARACTERS)
    .replaceAll(ANSI_STYLE, '')
    .split(/\r?\n/)
    .map((line) => line.trimEnd());
  while (lines.at(-1) === '') lines.pop();
  for (const find of [uncaughtInNode, pythonException, panic, headOfStack, lastLine]) {
    const text = find(lines)?.replaceAll(/\s+/g, ' ').trim();
    if (text) return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS - 1)}…` : text;
  }
  return undefined;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: programs colour their errors.
const ANSI_STYLE = /\u001b\[[0-9;]*m/g;

const lastLine: Finder = (lines) => lines.at(-1);

/** Node prints its version last; the exception follows a line of carets, and its stack follows the exception. */
const uncaughtInNode: Finder = (lines) => {
  if (!/^Node\.js v\d/.test(lines.at(-1) ?? '')) return undefined;
  const carets = lines.findLastIndex((line) => /^\s*\^+$/.test(line));
  if (carets < 0) return headOfStack(lines.slice(0, -1));
  const message = linesUntil(lines, carets + 1, /^\s+at |^Require stack:|^\(Use `node |^ *\[cause\]|^Node\.js v/);
  // Node prints an error without a stack as `[Error: message] {`.
  const text = message.join('\n').trim();
  const bare = /^\[(.*)\](?: \{)?$/s.exec(text)?.[1] ?? text;
  return withCause(bare, lines.slice(carets));
};

/** The last traceback is from the exception that ended the program, even in a chain of `raise ... from ...`. */
const pythonException: Finder = (lines) => {
  const start = lines.findLastIndex((line) =>
    /^(?: *\+ Exception Group )?Traceback \(most recent call last\):/.test(line),
  );
  if (start < 0) return undefined;
  const isGroup = lines[start]!.includes('Exception Group');
  const rest = lines.slice(start + 1).map((line) => (isGroup ? line.replace(/^ *\| /, '') : line));
  const at = rest.findIndex((line) => /^[^\s|]/.test(line));
  if (at < 0 || rest.length - at > MAX_LINES_BEHIND + (isGroup ? rest.length : 0)) return undefined;
  return linesUntil(rest, at, /^ *\+-/).join('\n');
};

const panic: Finder = (lines) => {
  const at = lines.findLastIndex((line) => /^(?:panic|fatal error): |^thread '.*' .*panicked at /.test(line));
  if (at < 0) return undefined;
  return lines[at]!.startsWith('thread ') ? lines.slice(at, at + 2).join('\n') : lines[at];
};

const FRAME = /^\s+(?:at|from) \S/;
const EXCEPTION = /(?:^|[\s"])[\w$.]*(?:Error|Exception)\b[^:]*: /;
/** Longest prefix of a line that is searched: the pattern is quadratic. */
const MAX_SEARCHED_LINE = 1000;

/** For a stack at the end of stderr, finds the line above it and the preceding lines back to the exception's name. */
const headOfStack: Finder = (lines) => {
  const head = lines.findLastIndex(
    (line, index) => /^[^\s}\]]/.test(line) && !line.startsWith('Caused by: ') && FRAME.test(lines[index + 1] ?? ''),
  );
  if (head < 0) return undefined;
  const behind = lines.slice(head + 1).filter((line) => /^[^\s}\]]/.test(line) && !line.startsWith('Caused by: '));
  if (behind.length > 0) return undefined;
  const first = lines.findLastIndex((line, index) => index <= head && EXCEPTION.test(line.slice(0, MAX_SEARCHED_LINE)));
  const from =
    first >= 0 && head - first < MAX_LINES_BEHIND && !lines.slice(first, head).some((line) => FRAME.test(line));
  return withCause(lines.slice(from ? first : head, head + 1).join('\n'), lines.slice(head));
};

/** Appends the root cause, which Node (`[cause]: ...`) and Java (`Caused by: ...`) print below the stack. */
function withCause(text: string, lines: readonly string[]): string {
  const line = lines.findLast((each) => /^\s*\[cause\]: |^Caused by: /.test(each));
  const cause = line?.replace(/^\s*\[cause\]: |^Caused by: /, '').replace(/ \{$/, '');
  return cause ? `${text} (cause: ${cause})` : text;
}

/** Returns the lines from `start` up to the first that matches `end`, exclusive. */
function linesUntil(lines: readonly string[], start: number, end: RegExp): readonly string[] {
  const length = lines.slice(start).findIndex((line) => end.test(line));
  return length < 0 ? lines.slice(start) : lines.slice(start, start + length);
}
