import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { BrowserContextOptions } from 'playwright-core';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { request } from '../../test/helpers/platform.ts';
import { describeSite } from './browser.ts';
import { findChromium } from './chromium.ts';

const DIST = join(import.meta.dirname, '../dist');
const KB = 1000;
/** Maximum compressed size of the scripts of the first page. */
const SHELL_KB = 190;
/** Maximum compressed size that each page adds. */
const PAGE_KB = 90;
/** Maximum sizes of large parts that are loaded on demand. */
const LARGE: Readonly<Record<string, number>> = {
  'src/ui/text/editor.tsx': 115,
  'src/ui/schema-form.tsx': 95,
  'src/ui/data/chart.tsx': 125,
};

/** Maximum requests of a page, its calls of the API included. */
const MAX_REQUESTS = 15;

interface Chunk {
  readonly file: string;
  readonly imports?: readonly string[];
}

describe.skipIf(findChromium() === undefined)('sizes', () => {
  const manifest = (): Record<string, Chunk> => JSON.parse(readFileSync(join(DIST, '.vite/manifest.json'), 'utf8'));
  const size = (file: string): number => gzipSync(readFileSync(join(DIST, file)), { level: 9 }).length;
  /** Returns a chunk and its static imports. */
  const closure = (chunks: Record<string, Chunk>, name: string, seen = new Set<string>()): Set<string> => {
    if (!seen.has(name)) {
      seen.add(name);
      for (const each of chunks[name]!.imports ?? []) closure(chunks, each, seen);
    }
    return seen;
  };

  test(`the shell has at most ${SHELL_KB} KB, a page ${PAGE_KB}`, () => {
    const chunks = manifest();
    const shell = closure(chunks, 'index.html');
    const total = (names: Iterable<string>) => [...names].reduce((sum, name) => sum + size(chunks[name]!.file), 0) / KB;
    expect(total(shell)).toBeLessThan(SHELL_KB);
    const scripts = Object.keys(chunks).filter((name) => chunks[name]!.file.endsWith('.js') && !shell.has(name));
    expect(scripts).toEqual(expect.arrayContaining(Object.keys(LARGE)));
    // A page that opens a large part already has the shared parts, which count for the page.
    const shared = closure(chunks, scripts.find((name) => name.startsWith('_parts-'))!);
    const tooLarge = scripts
      .map((name) => ({ name, kb: total(closure(chunks, name).difference(LARGE[name] ? shared : shell)) }))
      .filter(({ name, kb }) => kb > (LARGE[name] ?? PAGE_KB));
    expect(tooLarge).toEqual([]);
  });

  test('no page loads the chunk of another but for the playground in the catalog', () => {
    const chunks = manifest();
    const folders = new Set(readdirSync(join(DIST, '../src/pages')));
    const nameOf = (key: string) => /^_([a-z]+)-/.exec(key)?.[1] ?? '';
    const others = Object.entries(chunks)
      .filter(([key]) => folders.has(nameOf(key)))
      .flatMap(([key, { imports = [] }]) =>
        imports.filter((each) => folders.has(nameOf(each))).map((each) => `${nameOf(key)} -> ${nameOf(each)}`),
      );
    expect(others).toEqual(['catalog -> agents']);
  });

  test('no schema of the API is in it', () => {
    const scripts = Object.values(manifest()).map(({ file }) => readFileSync(join(DIST, file), 'utf8'));
    expect(scripts.filter((text) => text.includes('ZodError'))).toEqual([]);
  });
});

describeSite('requests', (site) => {
  const PAGES = [
    ...['/agents', '/runs', '/services', '/services/new', '/messages', '/storage', '/tasks', '/usage'],
    ...['/agents/reporter', '/agents/reporter/chat', '/schedules'],
    ...['/agents/reporter?tab=evals', '/agents/reporter/evals/EVAL'],
    ...['/catalog', '/billing', '/settings/general', '/settings/members', '/settings/keys'],
  ];
  let evalId: string;
  /** What the browser of a user keeps after the checklist is dismissed. */
  let storageState: BrowserContextOptions['storageState'];
  beforeAll(async () => {
    const { client } = site;
    const params = { workspace_id: (await client.getSession({})).workspace.id };
    await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' } });
    const prompt = { type: 'prompt', description: 'Reports', prompt: 'Report {{topic}}.' } as const;
    const body = { ...prompt, name: 'reporter', supported_providers: ['anthropic' as const] };
    const { id } = (await client.createAgent({ body })).agent;
    const input_data = { topic: 'news' };
    await client.createSchedule({ params, body: { agent_name: 'reporter', cron_expression: '0 9 * * *', input_data } });
    await client.createTask({ body: { title: 'Read the report' } });
    evalId = (await client.createEval({ params: { id }, body: { tests: [{ vars: input_data }] } })).eval_id;
    const evaluated = () => client.getEval({ params: { id, eval_id: evalId } });
    await vi.waitFor(async () => expect((await evaluated()).status).toBe('completed'), { timeout: 20_000 });
    const { target } = site;
    await request(target, 'POST', '/acme/reporter/v1/run', { key: target.key, json: input_data });
    const page = await site.open('/acme');
    await page.getByRole('button', { name: 'Dismiss checklist' }).click();
    storageState = await page.context().storageState();
  });

  test.each(PAGES)(`/acme%s makes at most ${MAX_REQUESTS}`, async (path) => {
    const page = await site.open('/login', { storageState });
    await page.goto('about:blank');
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.goto(site.at(`/acme${path.replace('EVAL', evalId)}`));
    await page.locator('main h1').waitFor();
    await page.getByText('Loading').first().waitFor({ state: 'detached' });
    // What a page asks after its first answers is counted, too.
    await page.waitForTimeout(1_000);
    expect(asked.length, asked.join('\n')).toBeLessThanOrEqual(MAX_REQUESTS);
  });
});
