import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { archiveOf } from '#cli/publishing/skill-source.ts';
import type { Client } from '#core/api/client.ts';
import { EXAMPLES_FOLDER } from '#local/demo/examples.ts';
import { type ZipEntry, zip } from '#test/helpers/zip.ts';
import { clientOf, type LocalTarget, publishCode, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, type Settings, signedInAt, tempFolder } from './command-line.ts';

let target: LocalTarget;
let client: Client;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  client = clientOf(target);
});
afterAll(() => target?.close());

const platform = (line: string, settings?: Settings) => commandLine(line.split(' '), signedInAt(target, settings));
const read = (folder: string, path: string): string => readFileSync(join(folder, path), 'utf8');
const names = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();

describe('pull', () => {
  // `npm ci` of html-to-markdown needs a registry.
  test.each(['csv-insights', 'document-inventory', 'log-investigator', 'reply-style', 'ticket-triage', 'webhook-chat'])(
    'writes %s as it was published: publishing that again changes nothing',
    async (name) => {
      const cwd = tempFolder();
      const published = await platform(`publish ${join(EXAMPLES_FOLDER, name)}`);
      expect(published, published.stderr).toMatchObject({ status: 0 });
      const pulled = await platform(`pull ${name}`, { cwd });
      expect(pulled, pulled.stderr).toMatchObject({ status: 0, json: { agent: `main/${name}@v1` } });
      expect(pulled.stderr).not.toContain('warning');
      expect(names(join(cwd, name))).toEqual(pulled.json.files);
      const again = await platform(`publish ${name}`, { cwd });
      expect(again.json).toMatchObject({ unchanged: true });
    },
  );

  test('brings back files that publishing leaves out by default, and keeps what is executable', async () => {
    const cwd = tempFolder();
    const files = { 'main.js': 'a', 'dist/[id].js': 'b', 'tests/data.json': '{}', 'bin/go': '#!/bin/sh\n' };
    await publishCode(client, 'odd', files, { runtime: { command: 'node main.js' }, entrypoint: 'main.js' });
    expect(await platform('pull main/odd@v1 here', { cwd })).toMatchObject({ status: 0 });
    const manifest = JSON.parse(read(cwd, 'here/agent.json'));
    expect(manifest.bundle.include).toEqual(['dist/[[]id].js', 'tests/data.json']);
    const preview = await platform('publish here --dry-run', { cwd });
    expect(preview.json.files.sort()).toEqual(Object.keys(files).sort());
    expect((await platform('publish here', { cwd })).status).toBe(0);
    expect((await platform('pull odd there', { cwd })).status).toBe(0);
    expect(statSync(join(cwd, 'there/bin/go')).mode & 0o111).not.toBe(0);
    expect(statSync(join(cwd, 'there/main.js')).mode & 0o111).toBe(0);
  });

  test('replaces nothing without --force, and never writes through a link', async () => {
    const cwd = tempFolder();
    const files = { 'main.js': 'new', 'lib/a.js': 'new' };
    await publishCode(client, 'careful', files, { runtime: { command: 'node main.js' } });
    mkdirSync(join(cwd, 'careful'));
    writeFileSync(join(cwd, 'careful/main.js'), 'mine');
    const refused = await platform('pull careful', { cwd });
    expect(refused).toMatchObject({ status: 5, stderr: expect.stringContaining('main.js') });
    expect(names(join(cwd, 'careful'))).toEqual(['main.js']);
    expect(read(cwd, 'careful/main.js')).toBe('mine');

    mkdirSync(join(cwd, 'elsewhere'));
    symlinkSync(join(cwd, 'elsewhere'), join(cwd, 'careful/lib'));
    expect(await platform('pull careful --force', { cwd })).toMatchObject({
      status: 5,
      stderr: expect.stringContaining('is not a folder'),
    });
    expect([readdirSync(join(cwd, 'elsewhere')), read(cwd, 'careful/main.js')]).toEqual([[], 'mine']);

    writeFileSync(join(cwd, 'other.js'), 'mine');
    mkdirSync(join(cwd, 'linked'));
    symlinkSync(join(cwd, 'other.js'), join(cwd, 'linked/main.js'));
    expect(await platform('pull careful linked --force', { cwd })).toMatchObject({ status: 0 });
    expect([read(cwd, 'linked/main.js'), read(cwd, 'other.js')]).toEqual(['new', 'mine']);
  });

  test('takes no path from a platform that leads out of the folder', async () => {
    const cwd = tempFolder();
    cpSync(join(EXAMPLES_FOLDER, 'reply-style'), join(cwd, 'own'), { recursive: true });
    writeFileSync(join(cwd, 'own/SKILL.md'), read(cwd, 'own/SKILL.md').replace('reply-style', 'escape'));
    expect((await platform('publish own', { cwd })).status).toBe(0);
    const evil: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (new URL(String(input)).pathname !== '/agents') return response;
      const all = (await response.json()) as { skill_files: unknown }[];
      for (const agent of all) agent.skill_files = [{ path: '../out.txt', content: 'x', size: 1 }];
      return Response.json(all);
    };
    const pulled = await platform('pull escape', { cwd, fetch: evil });
    expect(pulled).toMatchObject({ status: 1, stderr: expect.stringContaining('..') });
    expect([existsSync(join(cwd, 'out.txt')), existsSync(join(cwd, 'escape'))]).toEqual([false, false]);
  });

  test("writes another workspace's agent if its source is on offer, else says why not", async () => {
    const cwd = tempFolder();
    const runtime = { command: 'node main.js' };
    const files = { 'main.js': 'x' };
    await publishCode(client, 'offered', files, {
      ...{ runtime, is_public: true, allow_local_download: true, tags: ['shared'], required_secrets: ['A_KEY'] },
      input_schema: { type: 'object', properties: { n: { type: 'number' } } },
    });
    await publishCode(client, 'hidden', files, { runtime, is_public: true });
    const { key } = await target.addUser('stranger');
    const env = { PLATFORM_API_KEY: key };
    expect(await platform('pull main/offered', { cwd, env })).toMatchObject({ status: 0 });
    expect(names(join(cwd, 'offered'))).toEqual(['agent.json', 'main.js', 'schema.json']);
    const manifest = JSON.parse(read(cwd, 'offered/agent.json'));
    expect(manifest).toMatchObject({ name: 'offered', runtime, tags: ['shared'], required_secrets: ['A_KEY'] });
    expect(manifest).not.toHaveProperty('is_public');
    expect((await platform('publish offered', { cwd, env })).status).toBe(0);

    const refused = await platform('pull main/hidden', { cwd, env });
    expect(refused).toMatchObject({ status: 3, stderr: expect.stringContaining('DOWNLOAD_DISABLED') });
    expect(await platform('pull main/absent', { cwd, env })).toMatchObject({ status: 4 });
  });
});

describe('versions', () => {
  test('are compared member by member, and file by file', async () => {
    const runtime = { command: 'node main.js' };
    const first = { 'main.js': 'one\ntwo\nthree\n', 'old.txt': 'x' };
    const second = { 'main.js': 'one\n2\nthree\n', 'new.txt': 'y' };
    await publishCode(client, 'moving', first, { runtime, timeout_seconds: 20 });
    await publishCode(client, 'moving', second, { runtime, tags: ['new'] });
    const { json } = await platform('diff moving@v1 moving@v2');
    expect(json).toMatchObject({ from: 'main/moving@v1', to: 'main/moving@v2', same: false });
    expect(json.manifest).toEqual([
      { member: 'timeout_seconds', from: 20 },
      { member: 'tags', to: ['new'] },
    ]);
    expect(json.files.map(({ path }: { path: string }) => path)).toEqual(['main.js', 'new.txt', 'old.txt']);
    expect(json.files[1]).toMatchObject({ from_sha256: null, to_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
    const shown = await platform('diff moving@v1 moving@v2', { columns: 80 });
    expect(shown.stdout).toBe(
      [
        ...['agent.json', '- timeout_seconds: 20', '+ tags: ["new"]', 'main.js', '- two', '+ 2'],
        ...['new.txt', '+ y', 'old.txt', '- x', ''],
      ].join('\n'),
    );
    expect((await platform('diff moving moving@v2')).json).toMatchObject({ same: true, manifest: [], files: [] });
  });

  test('are shown with their schemas, of other workspaces too', async () => {
    const input_schema = { type: 'object', properties: { text: { type: 'string' } } };
    await client.createAgent({
      body: { name: 'shown', description: 'x', prompt: 'Say {{text}}', input_schema, is_public: true },
    });
    const { key } = await target.addUser('reader');
    for (const PLATFORM_API_KEY of [target.key, key]) {
      const env = { PLATFORM_API_KEY };
      const { json } = await platform('schema main/shown', { env });
      expect(json).toEqual({ agent: 'main/shown@v1', input_schema, output_schema: null });
      const types = await platform('types main/shown --json', { env });
      expect(types.json).toMatchObject({ agent: 'main/shown@v1', language: 'typescript' });
      expect(types.json.source).toContain('"main/shown": { input: ShownInput; output: ShownOutput }');
      expect((await platform('info main/shown@v1', { env })).json).toMatchObject({ name: 'shown', org_slug: 'main' });
    }
    const cwd = tempFolder();
    for (let time = 0; time < 2; time++) await platform('types shown@v1 --output shown_types.py', { cwd });
    const written = readFileSync(join(cwd, 'shown_types.py'), 'utf8');
    expect(written).toContain('"text": str,\n');
    expect((await platform('types shown@v1 --language python')).stdout).toBe(written);
    writeFileSync(join(cwd, 'own.ts'), 'mine');
    const refused = await platform('types shown -o own.ts', { cwd });
    expect(refused.status).toBe(5);
    expect(refused.stderr).toContain('Nothing was written');
    expect(readFileSync(join(cwd, 'own.ts'), 'utf8')).toBe('mine');
    expect((await platform('types absent')).status).toBe(4);
    expect((await platform('versions shown')).json).toHaveLength(1);
    expect((await platform('tree shown', { columns: 80 })).stdout).toBe('main/shown@v1  prompt\n');
  });

  test('are changed by options and by JSON', async () => {
    await client.createAgent({ body: { name: 'renamed', description: 'x', prompt: 'Say hello' } });
    const argv = ['update', 'renamed', '{"timeout_seconds": 9}', '--description', 'Says hello', '--tags', 'a, b'];
    const env = { PLATFORM_API_URL: target.url, PLATFORM_API_KEY: target.key };
    const { json } = await commandLine(argv, { env });
    expect(json).toMatchObject({ timeout_seconds: 9, description: 'Says hello', tags: ['a', 'b'], is_public: false });
    expect((await platform('update renamed --public')).json.is_public).toBe(true);
    expect((await platform('update renamed --no-public')).json.is_public).toBe(false);
    expect(await platform('update renamed')).toMatchObject({ status: 5 });
    expect((await platform('delete renamed --yes')).json).toMatchObject({ deleted: true, version_count: 1 });
  });
});

test('fork copies a public agent into the own workspace, from where it is pulled', async () => {
  const cwd = tempFolder();
  const manifest = { runtime: { command: 'node main.js' }, is_public: true, allow_local_download: true };
  await publishCode(client, 'original', { 'main.js': 'x' }, manifest);
  const { key, slug } = await target.addUser('forker');
  const env = { PLATFORM_API_KEY: key };
  const { json } = await platform('fork main/original --name mine', { env });
  expect(json.agent).toMatchObject({ org_slug: slug, name: 'mine', version: 'v1', is_public: false });
  expect((await platform('pull mine', { cwd, env })).status).toBe(0);
  expect(names(join(cwd, 'mine'))).toEqual(['agent.json', 'main.js']);
  expect(await platform('fork main/absent', { env })).toMatchObject({ status: 4 });
});

test('a skill is listed, and written where coding agents look, with its files', async () => {
  const cwd = tempFolder();
  const skill_files = [{ path: 'words/list.md', content: '- please' }];
  const body = { name: 'polite', type: 'skill', description: 'Use it: always', prompt: 'Be polite.', skill_files };
  await client.createAgent({ body: { ...body, is_public: true, allow_local_download: true } });
  const listed = await platform('skill list');
  expect(listed.json.map(({ name }: { name: string }) => name)).toContain('polite');
  expect((await platform('skill list --public')).json).toHaveLength(1);
  const env = { PLATFORM_API_KEY: (await target.addUser('skilled')).key };
  const { json } = await platform('skill install main/polite --to skills', { cwd, env });
  expect(json).toEqual({ skill: 'main/polite@v1', folder: 'skills/polite', files: ['SKILL.md', 'words/list.md'] });
  expect(read(cwd, 'skills/polite/SKILL.md')).toBe(
    '---\nname: polite\ndescription: "Use it: always"\n---\n\nBe polite.\n',
  );
  expect(await platform('skill install main/polite --to skills', { cwd, env })).toMatchObject({ status: 5 });
  await client.createAgent({ body: { name: 'no-skill', description: 'x', prompt: 'Say hello' } });
  expect(await platform('skill install no-skill', { cwd })).toMatchObject({
    status: 5,
    stderr: expect.stringContaining('is not a skill'),
  });
});

test('a skill is not installed from what is none, or what leads out of its folder', async () => {
  const cwd = tempFolder();
  const text = '---\nname: evil\ndescription: x\n---\nx';
  const refused = async (source: string, message: string, settings: Settings = {}) => {
    const ended = await platform(`skill install ${source}`, { cwd, ...settings });
    expect([ended.stderr, ended.status]).toEqual([expect.stringContaining(message), 5]);
  };
  const archives: [string, readonly ZipEntry[], string][] = [
    [
      'up',
      [
        { name: 'SKILL.md', content: text },
        { name: '../out.md', content: 'x' },
      ],
      '..',
    ],
    [
      'link',
      [
        { name: 'SKILL.md', content: text },
        { name: 'a', content: '/etc/passwd', mode: 0o120777 },
      ],
      'which is a link',
    ],
    ['twice', [{ name: 'SKILL.md', content: text }, { name: 'a' }, { name: 'a' }], 'twice'],
    [
      'bomb',
      [
        { name: 'SKILL.md', content: text },
        { name: 'a', content: Buffer.alloc(9_000_000), size: 10 },
      ],
      'expands to',
    ],
    [
      'large',
      [
        { name: 'SKILL.md', content: text },
        { name: 'a', content: Buffer.alloc(8_000_001) },
      ],
      'at most 8000000 bytes',
    ],
    ['none', [{ name: 'README.md', content: 'x' }], 'has no skill'],
    ['named', [{ name: 'SKILL.md', content: text.replace('evil', '../../x') }], 'SKILL.md name must be lower-case'],
  ];
  for (const [name, entries, message] of archives) {
    writeFileSync(join(cwd, `${name}.zip`), zip(entries));
    await refused(`./${name}.zip`, message);
  }
  writeFileSync(join(cwd, 'text.zip'), 'not a zip');
  await refused('text.zip', 'is not a zip archive');
  await refused('./absent', 'does not exist');
  await refused('http://github.com/a/b', 'must be an https address');
  await refused('https://user:word@github.com/a/b', 'must be an https address');
  await refused('https://github.com/a', 'is neither a .zip nor a repository');
  await refused('https://github.com/a/b/tree/main/%zz', 'in the address is not valid');
  const absent: typeof fetch = async () => new Response(null, { status: 404 });
  await refused('https://github.com/a/b', 'was answered with HTTP 404', { fetch: absent });
  const offline = async () => {
    throw new TypeError('fetch failed', { cause: new Error('getaddrinfo ENOTFOUND github.com') });
  };
  await refused('https://github.com/a/b', 'cannot be downloaded: getaddrinfo ENOTFOUND github.com', { fetch: offline });
  await refused('reply-style --all', '--name and --all are for a folder');
  expect(readdirSync(cwd).filter((each) => !each.endsWith('.zip'))).toEqual([]);
});

test.each([
  ['https://github.com/o/r', 'https://github.com/o/r/archive/HEAD.zip', ''],
  ['https://github.com/o/r.git#skills/pdf/', 'https://github.com/o/r/archive/HEAD.zip', 'skills/pdf'],
  ['https://github.com/o/r/tree/v1.2/a%20b/c', 'https://github.com/o/r/archive/v1.2.zip', 'a b/c'],
  ['https://gitlab.com/o/r/-/tree/main/skills', 'https://gitlab.com/o/r/-/archive/main/r.zip', 'skills'],
  ['https://host.example/x/y/skills.zip?token=1#a', 'https://host.example/x/y/skills.zip?token=1', 'a'],
])('the archive of %s', (address, archive, path) => {
  expect(archiveOf(address)).toEqual({ archive, path });
});
