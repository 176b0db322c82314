import { expect, test } from 'vitest';
import { undeclaredVariables } from './undeclared.ts';

const files = (texts: Record<string, string>) =>
  new Map(Object.entries(texts).map(([path, text]) => [path, Buffer.from(text)]));

test.each([
  ['main.py', 'os.environ["TOKEN"]', 'TOKEN'],
  ['main.py', "os.environ.get( 'TOKEN', '')", 'TOKEN'],
  ['main.py', 'from os import getenv; getenv("TOKEN")', 'TOKEN'],
  ['main.js', 'const { a } = process.env.TOKEN', 'TOKEN'],
  ['src/app.mts', "process.env['TOKEN']", 'TOKEN'],
  ['notes.md', 'process.env.TOKEN', undefined],
  ['main.py', 'os.environ["HOME"] + os.environ["PLATFORM_RUN_ID"]', undefined],
])('%s reads %s', (path, text, expected) => {
  expect([...undeclaredVariables({}, files({ [path]: text })).keys()]).toEqual(expected ? [expected] : []);
});

test('what the manifest declares is no variable too many', () => {
  const code = files({ 'a.py': 'getenv("ONE"); getenv("TWO"); getenv("THREE")', 'b.py': 'getenv("THREE")' });
  const manifest = { required_secrets: ['ONE'], optional_secrets: ['TWO'] };
  expect([...undeclaredVariables(manifest, code)]).toEqual([['THREE', 'a.py']]);
  const loop = {
    mcp_servers: [
      { name: 'a', url: 'https://a.example' },
      { name: 'b', command: 'b', env: { THREE: '3' } },
    ],
  };
  expect([...undeclaredVariables({ ...manifest, loop }, code)]).toEqual([]);
});
