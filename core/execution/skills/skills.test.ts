import { randomBytes } from 'node:crypto';
import { posix } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { publish as publishVersion, removeVersions } from '#core/agents/publish.ts';
import { checkDefinition } from '#core/manifest/parsing/manifest.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { withoutListeners } from '#test/helpers/agents.ts';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { skillEnvironment, skillFiles } from './skill-files.ts';
import { resolveSkills, type Skill, type SkillHeaders } from './skills.ts';

type Manifest = Readonly<Record<string, unknown>>;
const SKILL = { type: 'skill', description: 'How we write.', prompt: 'Be brief.' };
const PUBLIC = { ...SKILL, is_public: true, allow_local_download: true };

/** Creates two organizations: `acme` has the agents, `bolt` calls them. */
async function setUp() {
  const deps = memoryDeps();
  const [acme, bolt] = [await addUser(deps, 'acme'), await addUser(deps, 'bolt')];
  const homes = { acme, bolt };

  async function publish(org: keyof typeof homes, name: string, manifest: Manifest): Promise<AgentVersion> {
    const { definition, errors } = checkDefinition({ name, ...manifest });
    expect(errors).toEqual([]);
    const workspace = await findWorkspace(deps, homes[org].workspaceId);
    return publishVersion(withoutListeners(deps), workspace!, definition!, { runnable: true });
  }
  const agent = (manifest: Manifest = {}) =>
    publish('acme', 'summary', { type: 'prompt', description: 'x', prompt: 'x', ...manifest });
  const resolve = (version: AgentVersion, headers: SkillHeaders = {}, caller: keyof typeof homes = 'acme') =>
    resolveSkills(deps, { agent: version, headers, caller: homes[caller] });
  const refs = async (...args: Parameters<typeof resolve>) =>
    (await resolve(...args)).map(({ org, name, version }) => `${org}/${name}@${version}`);
  return { deps, publish, agent, resolve, refs };
}

describe('the skills of a run', () => {
  test('have their texts and files', async () => {
    const { publish, agent, resolve } = await setUp();
    await publish('acme', 'tone', { ...SKILL, skill_files: [{ path: 'words/list.txt', content: 'plain' }] });
    const tone = { org: 'acme', name: 'tone', version: 'v1', description: 'How we write.', text: 'Be brief.' };
    const files = [{ path: 'words/list.txt', content: 'plain' }];
    const tool = { type: 'tool', required_secrets: [], default_skills: ['tone'] };
    expect(await resolve(await agent(tool))).toEqual([{ ...tone, files }]);
    // A prompt cannot read files.
    expect(await resolve(await agent({ default_skills: ['tone'] }))).toEqual([{ ...tone, files: [] }]);
  });

  test('have binary files, and files that are stored beside the definition', async () => {
    const { publish, agent, resolve } = await setUp();
    const bytes = randomBytes(3000);
    const skill_files = [
      { path: 'font.ttf', content: bytes.toString('base64'), encoding: 'base64' },
      { path: 'large.xsd', content: 'x'.repeat(600_000) },
    ];
    await publish('acme', 'office', { ...SKILL, skill_files });
    const resolved = await resolve(await agent({ type: 'tool', required_secrets: [], default_skills: ['office'] }));
    expect(resolved[0]!.files).toEqual(skill_files);
    const [, , font, xsd] = skillFiles(resolved);
    expect(font).toEqual({ path: '/home/user/platform/skills/acme_office_v1/font.ttf', content: bytes });
    expect(xsd!.content.byteLength).toBe(600_000);
  });

  test('cost no reads if there are none', async () => {
    const { deps, agent } = await setUp();
    const version = await agent();
    const counter = new OperationCounter();
    const counted = { ...deps, main: counter.count(deps.main) };
    for (const headers of [{}, { skills: ' , ' }, { skillsOnly: '' }, { noSkills: 'true', skills: 'nowhere' }]) {
      const caller = { workspaceId: version.workspaceId, slug: 'acme' };
      expect(await resolveSkills(counted, { agent: version, headers, caller })).toEqual([]);
    }
    expect(counter.items).toBe(0);
  });

  test("are the defaults and the header's, only the header's, or none", async () => {
    const { publish, agent, refs } = await setUp();
    for (const name of ['one', 'two', 'three']) await publish('acme', name, PUBLIC);
    await publish('bolt', 'two', PUBLIC);
    const version = await agent({ default_skills: ['two', 'acme/one'], is_public: true });
    expect(await refs(version)).toEqual(['acme/two@v1', 'acme/one@v1']);
    expect(await refs(version, { skills: 'acme/three ,, two' }, 'bolt')).toEqual([
      'acme/two@v1',
      'acme/one@v1',
      'acme/three@v1',
      'bolt/two@v1',
    ]);
    expect(await refs(version, { skillsOnly: 'three', skills: 'one' })).toEqual(['acme/three@v1']);
    expect(await refs(version, { skillsOnly: '' })).toEqual([]);
    expect(await refs(version, { skillsOnly: 'three', noSkills: ' True ' })).toEqual([]);
    expect(await refs(version, { skillsOnly: 'three', noSkills: 'false' })).toEqual(['acme/three@v1']);
  });

  test('are the latest version, or the pinned one, each once', async () => {
    const { publish, agent, refs } = await setUp();
    for (const prompt of ['first', 'second']) await publish('acme', 'tone', { ...SKILL, prompt });
    const version = await agent({ default_skills: ['tone@v1'] });
    expect(await refs(version, { skills: 'tone' })).toEqual(['acme/tone@v1', 'acme/tone@v2']);
    expect(await refs(version, { skills: 'acme/tone@v1,tone@v1' })).toEqual(['acme/tone@v1']);
    expect(await refs(version, { skillsOnly: 'tone,acme/tone@latest,tone@v2' })).toEqual(['acme/tone@v2']);
  });

  test('are only its own if its skills are locked', async () => {
    const { publish, agent, refs } = await setUp();
    await publish('acme', 'tone', SKILL);
    const locked = await agent({ default_skills: ['tone'], skills_locked: true });
    for (const headers of [{ skills: '../x' }, { skillsOnly: 'nowhere' }, { noSkills: 'true' }, { noSkills: '7' }]) {
      expect(await refs(locked, headers)).toEqual(['acme/tone@v1']);
    }
    expect(await refs(await agent({ skills_locked: true }), { skills: 'tone' })).toEqual([]);
  });

  test('may be private to the workspace that names them', async () => {
    const { publish, agent, refs } = await setUp();
    await publish('acme', 'tone', SKILL);
    await publish('bolt', 'mine', SKILL);
    const version = await agent({ default_skills: ['tone'], is_public: true });
    expect(await refs(version, { skills: 'mine' }, 'bolt')).toEqual(['acme/tone@v1', 'bolt/mine@v1']);
  });
});

describe('a reference in a header', () => {
  test.each<[string, SkillHeaders, string]>([
    ['to nothing', { skills: 'nowhere' }, 'X-Platform-Skills: "nowhere" does not exist, or the workspace "bolt" may'],
    ['to a version that is not there', { skills: 'acme/tone@v9' }, '"acme/tone@v9" does not exist'],
    ['to a deleted skill', { skills: 'acme/gone' }, '"acme/gone" does not exist'],
    [
      "to another workspace's private skill",
      { skillsOnly: 'acme/private' },
      'X-Platform-Skills-Only: "acme/private" does not',
    ],
    ['to an agent', { skills: 'acme/summary' }, '"acme/summary" is not a skill: its type is prompt'],
    ['of a wrong form', { skills: 'tone,acme/../x' }, 'X-Platform-Skills: "acme/../x" is not a skill reference'],
    ['with a version of a wrong form', { skills: 'acme/tone@1' }, '"acme/tone@1" is not a skill reference'],
    ['that says no to skills in other words', { noSkills: 'yes' }, 'X-Platform-No-Skills is "yes"; it may be true or'],
    ['too many', { skills: Array(21).fill('acme/tone').join(',') }, 'names 21 skills'],
  ])('%s is refused', async (_, headers, message) => {
    const { deps, publish, agent, resolve } = await setUp();
    await publish('acme', 'tone', PUBLIC);
    await publish('acme', 'private', SKILL);
    const gone = await publish('acme', 'gone', PUBLIC);
    await removeVersions(withoutListeners(deps), gone, [gone]);
    await publish('bolt', 'tone', SKILL);
    const version = await agent({ is_public: true });
    const error = await resolve(version, headers, 'bolt').catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'INVALID_INPUT', message: expect.stringContaining(message) });
  });

  test('to more than 1 MB of instructions or 16 MB of files is refused', async () => {
    const { publish, agent, resolve } = await setUp();
    const skill_files = [{ path: 'a.md', content: 'x'.repeat(8_000_000) }];
    for (const name of ['aa', 'bb']) await publish('acme', name, { ...SKILL, skill_files });
    await publish('acme', 'cc', { ...SKILL, skill_files: [{ path: 'a', content: 'x' }] });
    const long = { ...SKILL, prompt: 'x'.repeat(200_000) };
    for (const name of ['l1', 'l2', 'l3', 'l4', 'l5', 'l6']) await publish('acme', name, long);
    const tool = await agent({ type: 'tool', required_secrets: [] });
    await expect(resolve(tool, { skills: 'aa,bb,cc' })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: "The files of this call's skills have 16000001 bytes in all; at most 16000000 apply to a run.",
    });
    expect(await resolve(tool, { skills: 'aa,bb' })).toHaveLength(2);
    // A prompt gets no files.
    const prompt = await agent();
    expect(await resolve(prompt, { skills: 'aa,bb,cc' })).toHaveLength(3);
    await expect(resolve(prompt, { skills: 'l1,l2,l3,l4,l5,l6' })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: "The instructions of this call's skills have 1200000 bytes in all; at most 1048576 apply to a run.",
    });
  });

  test('from another workspace needs an offered source unless the agent is a prompt', async () => {
    const { publish, agent, refs } = await setUp();
    await publish('acme', 'closed', { ...SKILL, is_public: true });
    const tool = { type: 'tool', required_secrets: [], is_public: true };
    const headers = { skills: 'acme/closed' };
    expect(await refs(await agent({ is_public: true }), headers, 'bolt')).toEqual(['acme/closed@v1']);
    expect(await refs(await agent(tool), headers, 'acme')).toEqual(['acme/closed@v1']);
    await expect(refs(await agent(tool), headers, 'bolt')).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('its author does not offer the source'),
    });
  });
});

test('a deleted default skill is UNPROCESSABLE', async () => {
  const { deps, publish, agent, resolve } = await setUp();
  const tone = await publish('acme', 'tone', SKILL);
  const version = await agent({ default_skills: ['tone'], is_public: true });
  await removeVersions(withoutListeners(deps), tone, [tone]);
  await expect(resolve(version, {}, 'bolt')).rejects.toMatchObject({
    code: 'UNPROCESSABLE',
    message:
      'acme/summary@v1 cannot run: tone in its default_skills does not exist, or the workspace "acme" may not use it.',
  });
});

const skill = (more: Partial<Skill> = {}): Skill => ({
  org: 'acme',
  name: 'tone',
  version: 'v2',
  description: 'How we write.',
  text: 'Be brief.',
  files: [],
  ...more,
});

describe('in a sandbox', () => {
  test('a run without skills has neither files nor variable', () => {
    expect([skillFiles([]), skillEnvironment([])]).toEqual([[], {}]);
  });

  test('a run with skills has a file for each text, a folder for its files, and a manifest', () => {
    const files = skillFiles([skill({ files: [{ path: 'words/list.txt', content: 'plain' }] })]);
    const text = Object.fromEntries(files.map(({ path, content }) => [path, Buffer.from(content).toString()]));
    expect(JSON.parse(text['/home/user/platform/skills/manifest.json']!)).toEqual([
      { org: 'acme', name: 'tone', version: 'v2', description: 'How we write.' },
    ]);
    expect(text).toMatchObject({
      '/home/user/platform/skills/acme_tone_v2.md': 'Be brief.',
      '/home/user/platform/skills/acme_tone_v2/words/list.txt': 'plain',
    });
    expect(files).toHaveLength(3);
    expect(skillEnvironment([skill()])).toEqual({ PLATFORM_SKILLS_DIR: '/home/user/platform/skills' });
  });

  test('files of skills stay in their folder and never overlap, for any name', () => {
    const path = fc.string({ unit: fc.constantFrom('a', '.', '/', '\\', '~'), minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(fc.uniqueArray(path, { maxLength: 5 }), (paths) => {
        const { errors } = checkDefinition({
          name: 'tone',
          ...SKILL,
          skill_files: paths.map((each) => ({ path: each, content: '' })),
        });
        fc.pre(errors.length === 0);
        const files = skillFiles([skill({ files: paths.map((each) => ({ path: each, content: '' })) })]);
        for (const file of files) {
          expect(file.path).toMatch(/^\/home\/user\/platform\/skills\/./);
          // `..` is only part of a name, not a parent folder.
          expect(posix.normalize(file.path)).toBe(file.path);
        }
        expect(new Set(files.map((file) => file.path)).size).toBe(files.length);
      }),
    );
  });
});
