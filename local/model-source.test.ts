import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { LayeredModelTable } from '#core/models/model-table.ts';
import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { localModels } from './model-source.ts';

const TABLE = '{"mine-1": {"window": 1000}}';

/** Returns the context window of `mine-1` in the table at this place, and the log lines. */
async function windowFrom(place: string, ownHosts: string[] = []) {
  const { log, lines, background } = memoryDeps();
  const clock = new SystemClock();
  const source = localModels(new HttpOutbound({ clock, ownHosts }), place);
  const table = new LayeredModelTable({ clock, log, background, source });
  await table.refresh();
  return { window: table.factsOf('mine-1').window, lines: lines.map(({ fields }) => fields) };
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'platform-models-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

test('a file', async () => {
  const file = join(folder(), 'models.json');
  writeFileSync(file, TABLE);
  expect(await windowFrom(file)).toEqual({ window: 1000, lines: [] });
});

test('a file that is not there, or too large', async () => {
  const path = folder();
  const missing = join(path, 'none.json');
  expect(await windowFrom(missing)).toMatchObject({
    lines: [{ source: missing, problem: expect.stringMatching(/ENOENT/) }],
  });
  const large = join(path, 'large.json');
  writeFileSync(large, Buffer.alloc(4 * 1024 * 1024 + 1, 32));
  expect(await windowFrom(large)).toMatchObject({
    lines: [{ problem: expect.stringMatching(/more than 4194304 bytes/) }],
  });
});

test('a web address, under the rules for requests to the outside; a signature in it is not logged', async () => {
  const server = createServer(({ url }, response) => {
    if (url === '/moved') response.writeHead(302, { location: '/models.json?signature=s3cret' }).end();
    else response.writeHead(url!.startsWith('/models.json') ? 200 : 404).end(TABLE);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  expect(await windowFrom(`${origin}/models.json`, ['127.0.0.1'])).toEqual({ window: 1000, lines: [] });
  expect(await windowFrom(`${origin}/moved`, ['127.0.0.1'])).toEqual({ window: 1000, lines: [] });
  expect(await windowFrom(`${origin}/none?signature=s3cret`, ['127.0.0.1'])).toEqual({
    window: undefined,
    lines: [{ source: `${origin}/none`, problem: 'it answered 404' }],
  });
  // The address is not one of the operator's own hosts.
  const { window, lines } = await windowFrom(`${origin}/models.json`);
  expect([window, lines.length]).toEqual([undefined, 1]);
});
