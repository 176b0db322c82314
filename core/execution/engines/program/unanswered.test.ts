import { expect, test } from 'vitest';
import { expectLinear } from '#test/helpers/linear.ts';
import { emptyOutputWarning, isServer } from './unanswered.ts';

test.each([
  [
    'main.py',
    'import json\n\ndef lambda_handler(event, context):\n  return {}\n',
    'defines lambda_handler,',
    'json.load(sys.stdin)',
  ],
  ['main.py', 'async def handler(event: dict, context=None):\n', 'defines handler,', 'print('],
  ['index.js', 'exports.handler = async (event) => ({});\n', 'defines handler,', 'console.log('],
  ['index.mjs', 'export const handler = async () => {};\n', 'defines handler,', 'console.log('],
  ['index.js', 'module.exports = { handler };\n', 'defines handler,', 'console.log('],
])('empty output of %s with %j names the handler', (name, text, handler, call) => {
  const { code, message } = emptyOutputWarning({ name, text });
  expect(code).toBe('VALIDATION_SKIPPED');
  expect(message).toContain('prints its result to stdout as one JSON value');
  expect(message).toContain(`${name} ${handler}`);
  expect(message).toContain(call);
});

test('empty output of other programs names the rule alone', () => {
  for (const script of [undefined, { name: 'main.py', text: 'def helper(event): pass\n' }]) {
    expect(emptyOutputWarning(script).message).toMatch(/one JSON value\.$/);
  }
});

test.each([
  'INFO:     Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)',
  ' * Running on http://127.0.0.1:5000',
  'Serving HTTP on 0.0.0.0 port 8000 (http://0.0.0.0:8000/) ...',
  'Example app listening on port 3000!',
  'Server listening at http://[::1]:3000',
  '> ready - started server on 0.0.0.0:3000',
  'listening on :8080',
])('%s is what a server prints', (line) => expect(isServer(`first\n${line}\n`)).toBe(true));

test.each(['started at 10:45', 'running job 17 of 3000', 'listening to 45 topics', 'GET http://example.org:8080/a'])(
  '%s is not',
  (line) => expect(isServer(line)).toBe(false),
);

test.each(['running ', 'listening on ', 'def a(event', 'exports.', 'port '])('takes linear time for %j', (part) => {
  expectLinear((size) => {
    const text = part.repeat(size / part.length);
    isServer(text);
    emptyOutputWarning({ name: 'a.py', text });
  }, 250_000);
});
