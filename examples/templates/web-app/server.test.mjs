// node --test
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';

test('the page greets, and escapes the name', async () => {
  const server = spawn(process.execPath, ['server.mjs'], { env: { ...process.env, PORT: '0' } });
  try {
    const [line] = await once(server.stdout, 'data');
    const port = /port (\d+)/.exec(line)[1];
    const answer = await fetch(`http://127.0.0.1:${port}/?name=${encodeURIComponent('<Ada>')}`);
    assert.match(await answer.text(), /Hello, &#60;Ada&#62;!/);
  } finally {
    server.kill();
  }
});
