import { mkdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { wholeProgram } from '#cli/program.ts';
import { commandLine, examplesOf, tempFolder, wordsOf } from './command-line.ts';

/** Commands that call no platform, start their own, or refuse their arguments first. */
const ASKS_NOBODY =
  /^(init|test|run \S+ --local|start|status|backup|restore|upgrade|systemd-unit|docs|agent-setup|import-evals|mcp|profiles|switch|logout|completion|open\b|api --list|skill install (\.\/|https:))/;

/** Platform that accepts connections but never answers. */
const sockets = new Set<Socket>();
let server: Server;
let url: string;
beforeAll(async () => {
  server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  server?.close();
});

test('every command ends with 7, and says that nothing was answered', async () => {
  const examples = examplesOf(await wholeProgram()).filter((line) => !ASKS_NOBODY.test(line));
  expect(examples.length).toBeGreaterThan(60);
  const cwd = tempFolder();
  const manifest = {
    name: 'hello',
    type: 'prompt',
    description: 'x',
    prompt: 'Say hello.',
    supported_providers: ['any'],
  };
  for (const name of ['.', 'hello', 'my-agent', 'orchestrator', 'worker']) {
    mkdirSync(join(cwd, name), { recursive: true });
    writeFileSync(join(cwd, name, 'agent.json'), JSON.stringify({ ...manifest, required_secrets: [] }));
    mkdirSync(join(cwd, name, 'evals'));
    writeFileSync(join(cwd, name, 'evals/first.yaml'), 'tests: [{ vars: { name: Ada } }]');
  }
  const wrong: string[] = [];
  for (const example of examples) {
    const { status, stdout, stderr } = await commandLine(
      [...wordsOf(example.replace('https://agents.example.com', url)), '--timeout', '0.05'],
      {
        cwd,
        configFolder: join(cwd, 'config'),
        stdin: 'sk_live_made-up-value',
        env: {
          PLATFORM_OPERATOR_KEY: 'made-up-'.repeat(4),
          PLATFORM_API_URL: url,
          PLATFORM_API_KEY: 'sk_live_made-up',
          PLATFORM_ID_TOKEN: 'made-up',
          CI: '1',
        },
      },
    );
    const said = `${stdout}${stderr}`;
    if (status !== 7 || !said.includes(`The platform at ${url} did not answer in time.`)) {
      wrong.push(`${example}: ${status} ${said}`);
    }
  }
  expect(wrong).toEqual([]);
});

test.each(['0', '-1', 'soon', '1e9'])('--timeout %s is refused', async (seconds) => {
  const { status, stderr } = await commandLine(['whoami', '--timeout', seconds]);
  expect([status, stderr]).toEqual([5, expect.stringContaining(`Invalid --timeout \\"${seconds}\\"`)]);
});
