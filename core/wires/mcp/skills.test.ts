import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { publish as publishVersion, removeVersions } from '#core/agents/publish.ts';
import { checkDefinition } from '#core/manifest/parsing/manifest.ts';
import { isMcpError, type McpContext } from '#core/ports/mcp-endpoint.ts';
import { withoutListeners } from '#test/helpers/agents.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { skillMethods } from './skills.ts';

const SKILL = { type: 'skill', description: 'How "we" write: ---', prompt: 'Be brief.' };
const FILES = [
  { path: 'words/a & b.txt', content: 'plain' },
  { path: 'font.bin', content: Buffer.from([0, 255, 1]).toString('base64'), encoding: 'base64' },
];
/** Two workspaces with skills, and what their owners read by MCP. */
async function setUp() {
  const deps = memoryDeps();
  const users = { acme: await addUser(deps, 'acme'), bolt: await addUser(deps, 'bolt') };
  async function publish(org: keyof typeof users, name: string, manifest: object) {
    const { definition, errors } = checkDefinition({ name, ...manifest });
    expect(errors).toEqual([]);
    const workspace = (await findWorkspace(deps, users[org].workspaceId))!;
    return publishVersion(withoutListeners(deps), workspace, definition!, { runnable: true });
  }
  /** Sends a request of MCP. Returns its result, or its error. */
  async function ask(
    by: keyof typeof users,
    method: string,
    params: { readonly uri?: string; readonly cursor?: string },
  ) {
    const workspace = (await findWorkspace(deps, users[by].workspaceId))!;
    const { userId, keyId } = users[by];
    const methods = skillMethods(deps, { userId, keyId, workspace, role: 'owner' });
    try {
      // biome-ignore lint/suspicious/noExplicitAny: results of every method.
      return { result: (await methods[method]!(params, {} as McpContext)) as any };
    } catch (error) {
      if (!isMcpError(error)) throw error;
      return { error: { code: error.rpcCode, message: error.message, data: error.data } };
    }
  }
  const read = async (by: keyof typeof users, uri: string) =>
    (await ask(by, 'resources/read', { uri })).result?.contents[0];
  return { deps, users, publish, ask, read };
}

describe('the skills of a workspace', () => {
  test('are listed with all files and their hashes, in folders with the version in their address', async () => {
    const { publish, ask, read } = await setUp();
    await publish('acme', 'tone', { ...SKILL, prompt: 'Be long.' });
    await publish('acme', 'tone', { ...SKILL, skill_files: FILES });
    await publish('acme', 'agent', { type: 'prompt', description: 'x', prompt: 'x' });
    await publish('bolt', 'other', SKILL);
    const { result } = await ask('acme', 'skills/list', {});
    expect(result).toMatchObject({ ttlMs: 60_000, cacheScope: 'private' });
    expect(result.skills).toMatchObject([
      {
        uri: 'skill://acme/v2/tone/SKILL.md',
        frontmatter: { name: 'tone', description: SKILL.description },
        resources: [
          { uri: 'skill://acme/v2/tone/SKILL.md' },
          { uri: 'skill://acme/v2/tone/words/a%20%26%20b.txt', size: 5 },
          { uri: 'skill://acme/v2/tone/font.bin', size: 3 },
        ],
      },
    ]);
    for (const { uri, digest, size } of result.skills[0].resources) {
      const { text, blob } = await read('acme', uri);
      const bytes = blob === undefined ? Buffer.from(text) : Buffer.from(blob, 'base64');
      expect(bytes.byteLength).toBe(size);
      expect(digest).toBe(`sha256:${createHash('sha256').update(bytes).digest('hex')}`);
    }
  });

  test('can be read in earlier versions, whose contents stay', async () => {
    const { publish, ask, read } = await setUp();
    await publish('acme', 'tone', { ...SKILL, prompt: 'Be long.' });
    await publish('acme', 'tone', SKILL);
    const uri = 'skill://acme/v1/tone/SKILL.md';
    expect((await ask('acme', 'skills/get', { uri })).result.skill.uri).toBe(uri);
    expect((await read('acme', uri)).text).toBe(
      '---\nname: "tone"\ndescription: "How \\"we\\" write: ---"\n---\n\nBe long.\n',
    );
  });

  test('are pages of a long list', async () => {
    const { publish, ask } = await setUp();
    for (let number = 10; number < 63; number++) await publish('acme', `skill-${number}`, SKILL);
    const names: string[] = [];
    let cursor: string | undefined;
    do {
      const { result } = await ask('acme', 'skills/list', cursor === undefined ? {} : { cursor });
      names.push(...result.skills.map((skill: { readonly uri: string }) => skill.uri));
      cursor = result.nextCursor;
    } while (cursor !== undefined);
    expect(new Set(names).size).toBe(53);
    expect((await ask('acme', 'skills/list', { cursor: 'made up' })).error).toBeDefined();
  });
});

describe('a skill of another workspace', () => {
  test('is read by its address if its source may be downloaded, and is unknown else', async () => {
    const { deps, publish, ask, read } = await setUp();
    await publish('acme', 'open', { ...SKILL, is_public: true, allow_local_download: true });
    await publish('acme', 'closed', { ...SKILL, is_public: true, allow_local_download: false });
    await publish('acme', 'private', SKILL);
    const gone = await publish('acme', 'gone', { ...SKILL, is_public: true, allow_local_download: true });
    await removeVersions(withoutListeners(deps), gone, [gone]);
    const uriOf = (name: string) => `skill://acme/v1/${name}/SKILL.md`;
    expect((await read('bolt', uriOf('open'))).text).toContain('Be brief.');
    const unknown = (await ask('bolt', 'resources/read', { uri: uriOf('nothing') })).error!;
    for (const name of ['closed', 'private', 'gone']) {
      const { error } = await ask('bolt', 'resources/read', { uri: uriOf(name) });
      const said = JSON.stringify(unknown).replaceAll('nothing', name);
      expect(error).toEqual(JSON.parse(said));
      expect((await ask('bolt', 'skills/get', { uri: uriOf(name) })).error?.code).toBe(-32602);
    }
    expect((await ask('bolt', 'skills/list', {})).result.skills).toEqual([]);
  });

  test.each([
    'skill://acme/v1/tone/../../v1/tone/SKILL.md',
    'skill://acme/v1/tone/%2e%2e/SKILL.md',
    'skill://acme/latest/tone/SKILL.md',
    'skill://acme/v1/tone/',
    'skill://acme/v1/tone/%E0%A4%A',
    'skill://acme/v1/tone/words%2Flist.txt%00',
    `skill://acme/v1/tone/${'a'.repeat(5000)}`,
    'skill://acme/v0/tone/SKILL.md',
    'skill://acme/v999999999/tone/SKILL.md',
    'skill://ACME/v1/tone/SKILL.md ',
    'file:///etc/passwd',
  ])('has no file %s', async (uri) => {
    const { publish, ask } = await setUp();
    await publish('acme', 'tone', SKILL);
    const { error } = await ask('acme', 'resources/read', { uri });
    expect(error).toMatchObject({ code: -32602, data: { uri: uri.slice(0, 2000) } });
  });
});
