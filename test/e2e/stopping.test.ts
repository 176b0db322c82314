import { Agent, get, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { bootstrap } from '#core/accounts/workspaces/bootstrap.ts';
import { parseLocalConfig } from '#local/config.ts';
import { startLocalServer } from '#local/server.ts';
import { temporaryFolder } from '#test/helpers/temporary-folder.ts';

test('a platform stops although a client asks again and again on its connection', async () => {
  const server = await startLocalServer(
    parseLocalConfig({ PLATFORM_PORT: '0', PLATFORM_DATA: temporaryFolder('stopping-'), PLATFORM_LOG_LEVEL: 'error' }),
  );
  const key = await bootstrap(server.deps);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask = (path: string, headers: Record<string, string> = {}): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => get(`${server.url}${path}`, { agent, headers }, resolve).on('error', reject));
  const { id } = JSON.parse(await text(await ask('/org', { authorization: `Bearer ${key}` })));
  // It is open when the platform begins to stop, and ends then.
  const headers = { authorization: `Bearer ${key}`, accept: 'text/event-stream' };
  const watching = await ask(`/workspaces/${id}/events`, headers);
  const stopped = server.close();
  await text(watching);
  let answers = 0;
  const isRefused = (): Promise<boolean> =>
    ask('/health')
      .then(text)
      .then(
        () => false,
        () => true,
      );
  while (answers < 200 && !(await isRefused())) {
    answers++;
    await setTimeout(5);
  }
  expect(answers).toBeLessThan(200);
  await stopped;
});
