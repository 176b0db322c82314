import { expect, test } from 'vitest';
import { LinesReader } from './message-reader.ts';

async function messagesOf(chunks: readonly (string | Buffer)[]): Promise<string[]> {
  const stdin = (async function* () {
    yield* chunks;
  })();
  const reader = new LinesReader({ stdin });
  const all: string[] = [];
  for (let message = await reader.message(); message !== undefined; message = await reader.message()) all.push(message);
  return all;
}

test('each line is a message, wherever the pipe cuts it', async () => {
  const bytes = Buffer.from('Grüße\r\n\n  \nTwo\nThree');
  const cuts = [bytes.subarray(0, 3), bytes.subarray(3, 8), bytes.subarray(8)];
  expect(await messagesOf(cuts)).toEqual(['Grüße', 'Two', 'Three']);
  expect(await messagesOf(['One\n'])).toEqual(['One']);
  expect(await messagesOf([])).toEqual([]);
});

test('a backslash continues a message', async () => {
  expect(await messagesOf(['One\\\ntwo\\\n\nThree\n', 'Last\\'])).toEqual(['One\ntwo\n', 'Three', 'Last\n']);
});
