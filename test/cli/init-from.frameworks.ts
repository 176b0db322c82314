import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { build } from 'esbuild';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { clientOf, type LocalTarget, publishCode, request, startLocalTarget } from '#test/helpers/platform.ts';
import { commandLine, signedInAt } from './command-line.ts';
import { PROJECTS } from './framework-projects.ts';

/**
 * Makes agents of real projects, with the packages from the registries, and calls or deploys them. Always played are
 * those with a small installation; `FRAMEWORKS=all` or `FRAMEWORKS=crewai,streamlit` plays others.
 */
const SMALL = ['langgraph', 'openai-agents-js', 'ai-sdk', 'apify', 'fastapi', 'flask', 'express', 'hono'];
const chosen = process.env.FRAMEWORKS ?? SMALL.join(',');
const names = chosen === 'all' ? Object.keys(PROJECTS) : chosen.split(',');
/** The largest installations take minutes. */
const TIMEOUT_MS = 600_000;

const ANSWER = 'Hello from the model.';
const ANSWERED = { output: ANSWER };
const WORDS = {
  items: [
    { word: 'one', length: 3 },
    { word: 'two', length: 3 },
  ],
  output: { words: 2 },
};

/** Output of a call with the sample input. */
const OUTPUTS: Readonly<Record<string, unknown>> = {
  langgraph: { text: 'Hello', kind: 'question' },
  'langgraph-js': {
    messages: [
      expect.anything(),
      expect.objectContaining({ kwargs: expect.objectContaining({ content: 'You said: Hello' }) }),
    ],
  },
  crewai: ANSWERED,
  'openai-agents': ANSWERED,
  'openai-agents-js': ANSWERED,
  'ai-sdk': ANSWERED,
  mastra: ANSWERED,
  adk: ANSWERED,
  'pydantic-ai': ANSWERED,
  apify: WORDS,
  'apify-js': WORDS,
};
/** Text that callers see in the log during the run. */
const STREAMED: Readonly<Record<string, string>> = {
  langgraph: 'classifies',
  'langgraph-js': 'You said: Hello',
  apify: 'Actor',
  'apify-js': 'INFO',
};

/** What a service answers at a path. */
const PAGES: Readonly<Record<string, readonly [path: string, text: string]>> = {
  fastapi: ['/', '{"Hello":"World"}'],
  flask: ['/', '<p>Hello, World!</p>'],
  django: ['/', 'Hello, 0 users.'],
  streamlit: ['/', '<title>Streamlit</title>'],
  gradio: ['/', 'Greets'],
  express: ['/', 'Hello World!'],
  hono: ['/', 'Hello Hono!'],
  nextjs: ['/', 'Hello, Next.js!'],
};

let target: LocalTarget;
let workspaceId: string;
const folder = mkdtempSync(join(tmpdir(), 'platform-from-'));
const platform = (...argv: readonly string[]) => commandLine(argv, signedInAt(target, { cwd: folder }));

beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_SANDBOX_MEMORY_MB: '1024' });
  const client = clientOf(target);
  workspaceId = (await client.getOrg({})).id;
  await target.setPlan(workspaceId, 'team');
  const model = await startModel();
  const params = { workspace_id: workspaceId };
  for (const [name, value] of [
    ['OPENAI_API_KEY', 'sk-made-up'],
    ['OPENAI_BASE_URL', `${model}/openai/v1`],
    ['GEMINI_API_KEY', 'made-up'],
    ['GEMINI_BASE_URL', `${model}/gemini/v1beta`],
  ] as const) {
    await client.putSecret({ params, body: { name, value } });
  }
}, TIMEOUT_MS);
afterAll(async () => {
  await target?.close();
  rmSync(folder, { recursive: true, force: true });
}, TIMEOUT_MS);

/** Starts the scripted model as a service, because programs in sandboxes reach the platform only. Returns its address. */
async function startModel(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, '../helpers/scripted-llm/main.ts')],
    bundle: true,
    platform: 'node',
    format: 'esm',
    write: false,
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    logLevel: 'warning',
  });
  const command = 'node main.mjs --port $PORT --host 0.0.0.0';
  const files = { 'main.mjs': outputFiles[0]!.text };
  await publishCode(clientOf(target), 'model', files, { run_mode: 'always_on', runtime: { command } });
  const address = await deployed('model');
  const script = await fetch(`${address}/script`, {
    method: 'POST',
    body: JSON.stringify({ default: { text: ANSWER } }),
  });
  expect(script.status).toBe(200);
  return address;
}

/** Deploys an agent, and returns the address of its service once it is healthy. */
async function deployed(agent: string): Promise<string> {
  const client = clientOf(target);
  const params = { workspace_id: workspaceId };
  const { service } = await client.deployService({ params, body: { agent: `acme/${agent}` } });
  const place = { ...params, service_id: service.id };
  for (;;) {
    const now = (await client.getService({ params: place })).service;
    if (now.health_status === 'healthy') break;
    if (now.restart_count > 0) {
      const { logs } = await client.listServiceLogs({ params: place });
      throw new Error(logs.map(({ message }) => message).join('\n'));
    }
    await setTimeout(200);
  }
  return `${target.url}/services/${service.id}`;
}

test.concurrent.each(names)('%s becomes an agent, and answers', { timeout: TIMEOUT_MS, retry: 0 }, async (name) => {
  const { files } = PROJECTS[name]!;
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name, path)), { recursive: true });
    writeFileSync(join(folder, name, path), text);
  }
  const made = await platform('init', '--from', name);
  expect(made.status, made.stderr).toBe(0);
  expect(made.json).toMatchObject({ name, framework: name, kept: [] });
  for (const [path, text] of Object.entries(files)) expect(readFileSync(join(folder, name, path), 'utf8')).toBe(text);
  const published = await platform('publish', name);
  expect(published.status, published.stderr + published.stdout).toBe(0);
  if (PAGES[name] !== undefined) {
    const [path, text] = PAGES[name];
    const address = await deployed(name);
    const page = await fetch(address + path);
    expect(await page.text()).toContain(text);
    expect(page.status).toBe(200);
    if (name === 'hono') {
      const echo = await fetch(`${address}/echo`, { method: 'POST', body: '{"sent":1}' });
      expect(await echo.json()).toEqual({ sent: 1 });
    }
    return;
  }
  expect(existsSync(join(folder, name, 'sample-input.json'))).toBe(true);
  const input = JSON.parse(readFileSync(join(folder, name, 'sample-input.json'), 'utf8'));
  const { body } = await request(target, 'POST', `/acme/${name}/latest/run`, {
    key: target.key,
    json: input,
    headers: { accept: 'text/event-stream' },
  });
  const records = [...String(body).matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data!));
  expect(records.at(-1).data, JSON.stringify(records, null, 1)).toEqual(OUTPUTS[name]);
  const log = records.map((each) => (each.type === 'stderr' ? each.text : '')).join('');
  expect(log).toContain(STREAMED[name] ?? (OUTPUTS[name] === ANSWERED ? ANSWER : ''));
});
