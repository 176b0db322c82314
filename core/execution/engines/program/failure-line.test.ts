import { describe, expect, test } from 'vitest';
import { expectLinear } from '#test/helpers/linear.ts';
import { failureLine } from './failure-line.ts';

const nodeStack = Array.from({ length: 10 }, (_, n) => `    at step${n} (node:internal/modules/cjs/loader:${n}:1)`);
const uncaught = (...message: string[]) =>
  ['/home/user/agent/main.js:1', "throw new Error('boom')", '^', '', ...message, '', 'Node.js v24.21.0', ''].join('\n');

describe('failureLine', () => {
  test.each([
    ['an uncaught error of Node, above its stack', uncaught('Error: boom', ...nodeStack), 'Error: boom'],
    [
      'with further members and a cause',
      uncaught(
        'Error: outer',
        'second line',
        ...nodeStack.slice(1),
        '    at last (a.js:1:1) {',
        "  code: 'X',",
        '  [cause]: TypeError: inner',
        '      at deep (a.js:1:1)',
        '}',
      ),
      'Error: outer second line (cause: TypeError: inner)',
    ],
    [
      'a rejection without a stack of its own',
      uncaught('[TypeError: fetch failed] {', '  [cause]: Error: bad port', '      at f (a.js:1:1)', '}'),
      'TypeError: fetch failed (cause: Error: bad port)',
    ],
    ['a thrown text', uncaught('abc', '(Use `node --trace-uncaught ...` to show where)'), 'abc'],
    [
      'an assertion',
      uncaught('AssertionError [ERR_ASSERTION]: Expected values to be equal:', '', '1 !== 2', '', ...nodeStack),
      'AssertionError [ERR_ASSERTION]: Expected values to be equal: 1 !== 2',
    ],
    [
      'a module that is missing',
      uncaught("Error: Cannot find module 'nope'", 'Require stack:', '- /home/user/agent/main.js', ...nodeStack),
      "Error: Cannot find module 'nope'",
    ],
    ['a caught error that Node printed', ['log', 'TypeError: bad', ...nodeStack, ''].join('\n'), 'TypeError: bad'],
    [
      'a caught error of two lines with a cause',
      ['failed: Error: one', 'two', ...nodeStack, '  [cause]: Error: in', '      at f (a.js:1:1)', '}'].join('\n'),
      'failed: Error: one two (cause: Error: in)',
    ],
    [
      'the last exception of a Python chain',
      [
        'Traceback (most recent call last):',
        '  File "main.py", line 2, in <module>',
        "ValueError: invalid literal for int() with base 10: 'x'",
        '',
        'The above exception was the direct cause of the following exception:',
        '',
        'Traceback (most recent call last):',
        '  File "main.py", line 4, in <module>',
        '    raise RuntimeError("outer\\nmore") from e',
        'RuntimeError: outer',
        'more',
        '',
      ].join('\n'),
      'RuntimeError: outer more',
    ],
    [
      'a group of Python exceptions',
      [
        '  + Exception Group Traceback (most recent call last):',
        '  |   File "main.py", line 1, in <module>',
        '  | ExceptionGroup: many (2 sub-exceptions)',
        '  +-+---------------- 1 ----------------',
        '    | Traceback (most recent call last):',
        '    | ValueError: a',
        '    +------------------------------------',
      ].join('\n'),
      'ExceptionGroup: many (2 sub-exceptions)',
    ],
    [
      'a syntax error of Python',
      '  File "main.py", line 1\n    def f(\n         ^\nSyntaxError: \'(\' was never closed\n',
      "SyntaxError: '(' was never closed",
    ],
    ['the text of sys.exit', 'INFO starting\nthe reason\n\n', 'the reason'],
    [
      'the last words of a program that logged an exception long before',
      ['Traceback (most recent call last):', '  File', 'ZeroDivisionError: x', ...Array(30).fill('log'), 'fatal'].join(
        '\n',
      ),
      'fatal',
    ],
    [
      'the last words after a stack',
      ['Error: handled', ...nodeStack, 'no license for this customer'].join('\n'),
      'no license for this customer',
    ],
    [
      'an exception of Java and its cause',
      [
        'Exception in thread "main" java.lang.RuntimeException: boom',
        '\tat Main.main(Main.java:3)',
        'Caused by: java.io.IOException: disk',
        '\tat Main.read(Main.java:9)',
        '\t... 1 more',
      ].join('\n'),
      'Exception in thread "main" java.lang.RuntimeException: boom (cause: java.io.IOException: disk)',
    ],
    ['a panic of Go', 'panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:3\nexit status 2\n', 'panic: boom'],
    [
      'a panic of Rust',
      "thread 'main' panicked at src/main.rs:2:5:\nboom\nnote: run with `RUST_BACKTRACE=1`\n",
      "thread 'main' panicked at src/main.rs:2:5: boom",
    ],
    [
      'an exception of Ruby',
      "main.rb:1:in 'foo': boom (RuntimeError)\n\tfrom main.rb:3:in '<main>'\n",
      "main.rb:1:in 'foo': boom (RuntimeError)",
    ],
    ['coloured text', '\u001b[31mred\u001b[0m\r\n', 'red'],
    ['nothing', ' \n\n', undefined],
  ])('finds %s', (_, stderr, line) => {
    expect(failureLine(stderr)).toBe(line);
    expect(failureLine(`${'noise\n'.repeat(20_000)}${stderr}`)).toBe(line ?? 'noise');
  });

  test('is at most 500 characters', () => {
    expect(failureLine(`ValueError: ${'x'.repeat(9000)}`)).toHaveLength(500);
  });

  test.each(['\n^', ' ', '    at x\n', 'Error', 'Exception in thread "', "thread '", '\u001b[', '| '])(
    'takes linear time for %j',
    (part) => {
      expectLinear((size) => {
        const text = part.repeat(size / part.length);
        // Only the end of the text is searched.
        for (let count = 0; count < 10; count++) {
          failureLine(text);
          failureLine(`${text}\nNode.js v24`);
        }
      }, 250_000);
    },
  );
});
