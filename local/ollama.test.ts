import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { SystemClock } from '#core/ports/clock.ts';
import { parseLocalConfig } from './config.ts';
import { findOllama, ollamaLine } from './ollama.ts';

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise((resolve) => server.once('listening', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Answers as Ollama's API does. */
const ollama =
  (models: unknown): RequestListener =>
  (request, response) => {
    const answers: Record<string, unknown> = { '/api/version': { version: '0.9.6' }, '/api/tags': { models } };
    response.end(JSON.stringify(answers[request.url!]));
  };

const find = (environment: Record<string, string>) => findOllama(parseLocalConfig(environment), new SystemClock());

test('an Ollama that runs is found, with its models', async () => {
  const address = await serve(ollama([{ name: 'llama3.2:latest' }, { name: 'qwen3:8b' }]));
  const found = (await find({ PLATFORM_FIND_OLLAMA: `${address}/` }))!;
  expect(found.settings).toEqual({ ollamaUrl: `${address}/v1`, ollamaSchemas: true });
  expect(ollamaLine(found)).toBe('Ollama 0.9.6 (llama3.2:latest, qwen3:8b)');
});

test('the line names five models, and the command that installs the first', async () => {
  const many = Array.from({ length: 7 }, (_, i) => ({ name: `m${i}\u001b[2J\n` }));
  const address = await serve(ollama(many));
  const found = (await find({ PLATFORM_FIND_OLLAMA: address }))!;
  expect(ollamaLine(found)).toBe('Ollama 0.9.6 (m0?[2J?, m1?[2J?, m2?[2J?, m3?[2J?, m4?[2J? and 2 more)');
  expect(ollamaLine({ ...found, models: [] })).toBe('Ollama 0.9.6 (no model yet: ollama pull llama3.2)');
});

test('an address that the operator set wins, and "off" does not look', async () => {
  let requests = 0;
  const address = await serve((_request, response) => {
    requests++;
    response.end('{}');
  });
  expect(
    await find({ PLATFORM_FIND_OLLAMA: address, PLATFORM_OLLAMA_URL: 'http://127.0.0.1:8000/v1' }),
  ).toBeUndefined();
  expect(await find({ PLATFORM_FIND_OLLAMA: 'off' })).toBeUndefined();
  expect(requests).toBe(0);
  expect(() => parseLocalConfig({ PLATFORM_FIND_OLLAMA: 'perhaps' })).toThrow('PLATFORM_FIND_OLLAMA');
});

test.each<[string, RequestListener]>([
  ['no JSON', (_request, response) => response.end('<html>')],
  ['another API', (_request, response) => response.end('{"version":1}')],
  ['an error', (_request, response) => response.writeHead(500).end('{"version":"1"}')],
  ['nothing', () => undefined],
  ['more than it may', (_request, response) => response.end('x'.repeat(2 * 1024 * 1024))],
])('a server that answers %s is not Ollama, and does not hold up the start', async (_what, listener) => {
  expect(await find({ PLATFORM_FIND_OLLAMA: await serve(listener) })).toBeUndefined();
});

test('nothing listens', async () => {
  expect(await find({ PLATFORM_FIND_OLLAMA: 'http://127.0.0.1:1' })).toBeUndefined();
});
