import { createHash, randomBytes } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { clientOf, publishCode, request, type Target } from '#test/helpers/platform.ts';
import { upload } from '#test/helpers/uploads.ts';
import { expectError, expectOk } from '../expect.ts';
import type { Languages } from '../languages.ts';

const SKILL_MD = `---
name: house-style
description: >-
  How we write,
  everywhere.
license: MIT
metadata: { author: acme, version: 1.2 }
---

# House style

Be brief. See words/list.md.
`;
const FILES = [
  { path: 'words/list.md', content: '- plain\n' },
  { path: 'naïve.txt', content: 'ü' },
];
const SKILL = { type: 'skill', description: 'How we write.', prompt: 'Be brief.' };
const PROMPT = { type: 'prompt', description: 'says it', prompt: 'Say it.' };
const TOOL = { type: 'tool', description: 'calls others', required_secrets: [] };

/** Returns the files of its skills, read as an agent author would. */
const READER = `
import json, os, sys
folder = os.environ.get("PLATFORM_SKILLS_DIR")
found = {}
for parent, _, names in os.walk(folder or "/nowhere"):
    for name in names:
        path = os.path.join(parent, name)
        found[os.path.relpath(path, folder)] = open(path, encoding="utf-8").read()
manifest = json.loads(found.pop("manifest.json", "null"))
print(json.dumps({"folder": folder, "manifest": manifest, "files": found}))
`;

/** Returns the hash of each file of its skills. */
const HASHER = `
import hashlib, json, os
folder = os.environ["PLATFORM_SKILLS_DIR"]
found = {}
for parent, _, names in os.walk(folder):
    for name in names:
        path = os.path.join(parent, name)
        found[os.path.relpath(path, folder)] = hashlib.sha256(open(path, "rb").read()).hexdigest()
print(json.dumps(found))
`;

const sha256Of = (content: string | Uint8Array): string => createHash('sha256').update(content).digest('hex');

/** Publishing and naming skills, and reading them in a sandbox; trees of agents. */
export function skillsSuite(target: () => Target, { python: hasPython }: Languages): void {
  const call = (method: string, path: string, options?: Parameters<typeof request>[3]) =>
    request(target(), method, path, options);
  const publish = (key: string, json: Record<string, unknown>) => call('POST', '/agents', { key, json });
  const published = async (key: string, json: Record<string, unknown>) => expectOk(await publish(key, json), 201).agent;

  describe.concurrent('a skill', () => {
    test('is published from a whole SKILL.md with further files, and downloaded', async () => {
      const { key } = await target().addUser('skill-whole');
      const json = {
        name: 'house-style',
        type: 'skill',
        prompt: SKILL_MD,
        skill_files: FILES.map((file) => ({ ...file, size: 1 })),
        is_public: true,
        allow_local_download: true,
      };
      const agent = await published(key, json);
      const body = '# House style\n\nBe brief. See words/list.md.';
      expect(agent).toMatchObject({
        type: 'skill',
        version: 'v1',
        description: 'How we write, everywhere.',
        prompt: body,
        callable: false,
        runnable: true,
        execution_engine: null,
        skill_files: [
          { ...FILES[0], size: 8 },
          { ...FILES[1], size: 2 },
        ],
      });
      const path = '/public/agents/skill-whole/house-style/latest';
      expect(expectOk(await call('GET', path))).toMatchObject({ prompt: body, skill_files: agent.skill_files });
      expect(expectOk(await call('GET', `${path}/download`))).toMatchObject({
        type: 'skill',
        prompt: body,
        files: FILES,
        has_bundle: false,
      });
      const again = await published(key, { ...json, prompt: SKILL_MD.replace('Be brief', 'Be kind') });
      expect(again).toMatchObject({ version: 'v2', prompt: body.replace('Be brief', 'Be kind') });
    });

    test('with closed source hides its text and files', async () => {
      const { key } = await target().addUser('skill-closed');
      const skill = { ...SKILL, name: 'closed', prompt: 'secret-text', is_public: true };
      await published(key, { ...skill, skill_files: [{ path: 'a.md', content: 'secret-file' }] });
      const path = '/public/agents/skill-closed/closed/v1';
      const shown = expectOk(await call('GET', path));
      expect(shown).toMatchObject({ type: 'skill', description: 'How we write.' });
      expect(JSON.stringify(shown)).not.toContain('secret-');
      expectError(await call('GET', `${path}/download`), 403, 'DOWNLOAD_DISABLED');
    });

    test('with mistakes is refused, and every mistake is named', async () => {
      const { key } = await target().addUser('skill-wrong');
      const refused = async (json: Record<string, unknown>, message: string) => {
        const body = { name: 'house-style', type: 'skill', ...json };
        expectError(await publish(key, body), 400, 'INVALID_INPUT', message);
        expect(expectOk(await call('POST', '/agents/validate', { key, json: body })).valid).toBe(false);
      };
      await refused(
        { prompt: SKILL_MD.replace('name: house-style', 'name: House') },
        'SKILL.md name: must be lower-case',
      );
      await refused({ prompt: SKILL_MD.replace('description', 'about') }, 'SKILL.md description: must be text');
      await refused({ prompt: SKILL_MD, name: 'other' }, 'name: must be the name in SKILL.md, "house-style"');
      await refused({ prompt: '---\nname: [\n---\nx' }, 'SKILL.md: has front matter that is not YAML');
      await refused({ ...SKILL, skill_files: [{ path: '../a', content: '' }] }, 'skill_files[0].path: has ".."');
      await refused({ ...SKILL, skill_files: [{ path: 'a', content: 'x\0' }] }, 'skill_files[0].content: must be text');
      const encoded = { path: 'a', content: 'x', encoding: 'base64' };
      await refused({ ...SKILL, skill_files: [encoded] }, 'skill_files[0].content: must be base64');
      const strange = { ...encoded, encoding: 'hex' };
      await refused({ ...SKILL, skill_files: [strange] }, 'skill_files[0].encoding: must be "base64"');
      const many = Array.from({ length: 201 }, (_, index) => ({ path: `${index}`, content: '' }));
      await refused({ ...SKILL, skill_files: many }, 'skill_files: must be at most 200, but are 201');
      await refused({ ...SKILL, price_per_call_cents: 5 }, 'price_per_call_cents: must be absent for a skill');
    });

    test('has a long description cut, with a warning', async () => {
      const { key } = await target().addUser('skill-long');
      const description = 'Use it whenever a report is asked for. '.repeat(60);
      const body = { ...SKILL, name: 'long', description };
      expect(expectOk(await call('POST', '/agents/validate', { key, json: body }))).toMatchObject({ valid: true });
      const { agent, warnings } = expectOk(await publish(key, body), 201);
      expect(agent.description).toMatch(/^Use it .*…$/);
      expect(agent.description.length).toBeLessThanOrEqual(1024);
      expect(warnings).toEqual([expect.stringContaining('The description was cut to')]);
    });

    test('has binary files, which lists leave out and records and downloads show', async () => {
      const { key } = await target().addUser('skill-binary');
      const font = randomBytes(20_000);
      const skill_files = [
        { path: 'fonts/a.ttf', content: font.toString('base64'), encoding: 'base64' },
        { path: 'notes.md', content: '- ü\n' },
      ];
      const whole = skill_files.map((file, index) => ({ ...file, size: index === 0 ? 20_000 : 5 }));
      const offered = { is_public: true, allow_local_download: true };
      const json = { ...SKILL, name: 'canvas', skill_files, ...offered };
      const agent = await published(key, json);
      const listed = [
        { path: 'fonts/a.ttf', size: 20_000, encoding: 'base64', sha256: sha256Of(font) },
        { path: 'notes.md', size: 5, sha256: sha256Of('- ü\n') },
      ];
      expect(agent.skill_files).toEqual(listed);
      const [inList] = expectOk(await call('GET', '/agents?name=canvas', { key }));
      expect(inList.skill_files).toEqual(listed);
      const path = '/public/agents/skill-binary/canvas/v1';
      expect(expectOk(await call('GET', path)).skill_files).toEqual(listed);
      expect(expectOk(await call('GET', `/agents/${agent.id}`, { key })).skill_files).toEqual(whole);
      expect(expectOk(await call('GET', `${path}/download`)).files).toEqual(skill_files);
      for (const at of [`/agents/${agent.id}`, path]) {
        expect(expectOk(await call('GET', `${at}/skill-files`, { key }))).toEqual(whole);
      }
      const again = expectOk(await call('POST', '/agents?unless_unchanged=true', { key, json }));
      expect(again).toMatchObject({ unchanged: true, agent: { version: 'v1' } });
      const changed = { ...json, skill_files: [{ ...skill_files[0], content: 'AAAA' }, skill_files[1]] };
      expectOk(await call('POST', '/agents?unless_unchanged=true', { key, json: changed }), 201);

      const patch = { tags: ['fonts'], is_public: true };
      expect(expectOk(await call('PATCH', `/agents/${agent.id}`, { key, json: patch })).skill_files).toEqual(listed);
      const forker = await target().addUser('skill-forker');
      const fork = expectOk(await call('POST', `/agents/${agent.id}/fork`, { key: forker.key, json: {} })).agent;
      expectOk(await call('DELETE', `/agents/${agent.id}?confirmation_name=canvas`, { key }));
      expect(expectOk(await call('GET', `/agents/${fork.id}`, { key: forker.key })).skill_files).toEqual(whole);
      expectError(await call('GET', `/agents/${fork.id}/skill-files`, { key }), 404, 'NOT_FOUND');
    });

    test('of 8 MB is uploaded before it is published, and downloaded whole', async () => {
      const { key } = await target().addUser('skill-large');
      const client = clientOf({ ...target(), key });
      const content = randomBytes(7_900_000).toString('base64');
      const files = [
        { path: 'a.tar.gz', content, encoding: 'base64' as const },
        ...Array.from({ length: 199 }, (_, index) => ({ path: `schemas/${index}.xsd`, content: 'x'.repeat(500) })),
      ];
      const large = { ...SKILL, name: 'large' };
      const direct = await call('POST', '/agents', { key, json: { ...large, skill_files: files } });
      // Before the platform, API Gateway refuses what is larger than 10 MB, with a text of its own.
      expect([direct.status, JSON.stringify(direct.body)]).toEqual([413, expect.stringContaining('POST /uploads')]);
      const id = await upload(client, JSON.stringify(files), 'bundle');
      const json = { ...large, skill_files_upload_id: id };
      expect(expectOk(await call('POST', '/agents/validate', { key, json }))).toMatchObject({
        valid: true,
        warnings: [],
      });
      const agent = await published(key, json);
      expect(agent.skill_files).toHaveLength(200);
      const shown = expectOk(await call('GET', `/agents/${agent.id}`, { key }));
      expect(shown.skill_files[0]).toEqual({ ...agent.skill_files[0], size: 7_900_000 });
      const whole = expectOk(await call('GET', `/agents/${agent.id}/skill-files`, { key }));
      expect(whole.map(({ size: _, ...file }: { size: number }) => file)).toEqual(files);

      const wrong = async (more: object, message: string) =>
        expectError(await publish(key, { ...large, ...more }), 400, 'INVALID_INPUT', message);
      await wrong({ skill_files_upload_id: id, skill_files: [] }, 'skill_files_upload_id: cannot be combined');
      await wrong({ skill_files_upload_id: 7 }, 'skill_files_upload_id: must be the upload_id');
      await wrong({ skill_files_upload_id: await upload(client, '{', 'bundle') }, 'is not valid JSON');
      await wrong({ skill_files_upload_id: await upload(client, '{}', 'bundle') }, 'skill_files: must be an array');
      const tooMany = [...files, { path: 'b', content: 'x'.repeat(501) }];
      const over = await upload(client, JSON.stringify(tooMany.slice(1).concat(files[0]!)), 'bundle');
      await wrong({ skill_files_upload_id: over }, 'skill_files: must be at most 200');
      const { key: other } = await target().addUser('skill-thief');
      expectError(await publish(other, json), 404, 'NOT_FOUND');
    });

    test('cannot be called', async () => {
      const { key } = await target().addUser('skill-called');
      await published(key, { ...SKILL, name: 'tone' });
      const answer = await call('POST', '/skill-called/tone/v1/run', { key, json: {} });
      expectError(answer, 422, 'UNPROCESSABLE', 'skill-called/tone@v1 is a skill');
    });
  });

  describe.concurrent('default_skills', () => {
    test('must be skills that the workspace may use, also when they are changed later', async () => {
      const other = await target().addUser('skills-other');
      await published(other.key, { ...SKILL, name: 'open', is_public: true });
      await published(other.key, { ...SKILL, name: 'private' });
      const { key } = await target().addUser('skills-own');
      await published(key, { ...SKILL, name: 'tone' });
      await published(key, { ...PROMPT, name: 'sayer' });
      const good = ['tone', 'skills-own/tone@v1', 'skills-other/open@latest'];
      const agent = await published(key, { ...PROMPT, name: 'writer', default_skills: good });
      expect(agent.default_skills).toEqual(good);

      const wrong: [string, string][] = [
        ['nowhere', 'is nowhere, which does not exist, or the workspace "skills-own" may not use it'],
        ['tone@v7', 'is tone@v7, which does not exist'],
        ['skills-other/private', 'is skills-other/private, which does not exist'],
        ['sayer', 'is sayer, which is not a skill: its type is prompt'],
      ];
      for (const [ref, message] of wrong) {
        const json = { ...PROMPT, name: 'writer', default_skills: ['tone', ref] };
        expectError(await publish(key, json), 400, 'INVALID_INPUT', `default_skills[1]: ${message}`);
        const patch = { default_skills: [ref] };
        const changed = await call('PATCH', `/agents/${agent.id}`, { key, json: patch });
        expectError(changed, 400, 'INVALID_INPUT', `default_skills[0]: ${message}`);
      }
      expectOk(await call('PATCH', `/agents/${agent.id}`, { key, json: { default_skills: ['skills-other/open'] } }));
    });

    test('of a fork are those of the original', async () => {
      const author = await target().addUser('skills-author');
      await published(author.key, { ...SKILL, name: 'tone', is_public: true });
      const original = await published(author.key, {
        ...PROMPT,
        name: 'writer',
        is_public: true,
        allow_local_download: true,
        default_skills: ['tone', 'skills-author/tone@v1'],
      });
      const { key } = await target().addUser('skills-forker');
      const { agent } = expectOk(await call('POST', `/agents/${original.id}/fork`, { key, json: {} }));
      expect(agent.default_skills).toEqual(['skills-author/tone', 'skills-author/tone@v1']);
    });
  });

  describe.skipIf(!hasPython).concurrent('a program (skipped without Python on this machine)', () => {
    // biome-ignore lint/suspicious/noExplicitAny: answers of the agent above.
    const run = async (agent: string, headers: Record<string, string> = {}, key = target().key): Promise<any> =>
      expectOk(await call('POST', `/acme/${agent}/latest/run`, { key, json: {}, headers })).data;

    beforeAll(async () => {
      const client = clientOf(target());
      await client.createAgent({ body: { name: 'house-style', type: 'skill', prompt: SKILL_MD, skill_files: FILES } });
      await client.createAgent({ body: { ...SKILL, name: 'tone', description: 'Kindly.', prompt: 'Be kind.' } });
      const files = { 'main.py': READER };
      await publishCode(client, 'skill-reader', files, { default_skills: ['house-style'], is_public: true });
      await publishCode(client, 'skill-locked', files, { default_skills: ['tone'], skills_locked: true });
      await publishCode(client, 'skill-free', files);
    });

    test('finds the texts and files of its skills', async () => {
      expect(await run('skill-reader')).toEqual({
        folder: '/home/user/platform/skills',
        manifest: [{ org: 'acme', name: 'house-style', version: 'v1', description: 'How we write, everywhere.' }],
        files: {
          'acme_house-style_v1.md': '# House style\n\nBe brief. See words/list.md.',
          'acme_house-style_v1/words/list.md': '- plain\n',
          'acme_house-style_v1/naïve.txt': 'ü',
        },
      });
    });

    test('finds binary and large files of its skills as they were published', async () => {
      const client = clientOf(target());
      const font = randomBytes(50_000);
      const schema = '<xs:schema/>\n'.repeat(50_000);
      const skill_files = [
        { path: 'fonts/a.ttf', content: font.toString('base64'), encoding: 'base64' as const },
        { path: 'ooxml/wml.xsd', content: schema },
      ];
      await client.createAgent({ body: { ...SKILL, name: 'office', skill_files } });
      const files = { 'main.py': HASHER };
      await publishCode(client, 'skill-hasher', files, { default_skills: ['office'] });
      expect(await run('skill-hasher')).toMatchObject({
        'acme_office_v1/fonts/a.ttf': sha256Of(font),
        'acme_office_v1/ooxml/wml.xsd': sha256Of(schema),
      });
    });

    test('gets the skills that the headers add, select or switch off', async () => {
      const names = async (agent: string, headers: Record<string, string>) =>
        (await run(agent, headers)).manifest?.map(({ name }: { name: string }) => name);
      expect(await names('skill-reader', { 'x-platform-skills': 'tone' })).toEqual(['house-style', 'tone']);
      expect(await names('skill-reader', { 'x-platform-skills-only': 'acme/tone@v1' })).toEqual(['tone']);
      const none = { folder: null, manifest: null, files: {} };
      expect(await run('skill-reader', { 'x-platform-no-skills': 'true' })).toEqual(none);
      expect(await run('skill-free')).toEqual(none);
      expect(await names('skill-locked', { 'x-platform-no-skills': 'true', 'x-platform-skills': '../x' })).toEqual([
        'tone',
      ]);
    });

    test("of another workspace gets skills from the caller's workspace by header, and unknown names are refused", async () => {
      const { key } = await target().addUser('skill-caller');
      await published(key, { ...SKILL, name: 'tone' });
      const { manifest } = await run('skill-reader', { 'x-platform-skills': 'tone' }, key);
      expect(manifest.map(({ org, name }: Record<string, string>) => `${org}/${name}`)).toEqual([
        'acme/house-style',
        'skill-caller/tone',
      ]);
      const headers = { 'x-platform-skills': 'tone, acme/tone' };
      const answer = await call('POST', '/acme/skill-reader/latest/run', { key, json: {}, headers });
      expectError(answer, 400, 'INVALID_INPUT', 'X-Platform-Skills: "acme/tone" does not exist');
    });
  });

  describe.concurrent('the tree of an agent', () => {
    const calling = (id: string, version = 'v1') => ({
      manifest: { manifest_version: 1, dependencies: [{ id, version }], max_hops: 2, timeout_ms: 10_000 },
    });

    test('shows the agents that it calls and the skills of each', async () => {
      const { key } = await target().addUser('tree-own');
      await published(key, { ...SKILL, name: 'tone' });
      await published(key, { ...PROMPT, name: 'leaf', default_skills: ['tone'], skills_locked: true });
      await published(key, { ...TOOL, name: 'middle', ...calling('tree-own/leaf') });
      await published(key, { ...TOOL, name: 'root', ...calling('tree-own/middle') });
      const tree = expectOk(await call('GET', '/agents/tree-own/root/v1/tree', { key }));
      const plain = { type: 'tool', skills: [], skills_locked: false };
      const leaf = { type: 'prompt', skills: ['tree-own/tone'], skills_locked: true };
      expect(tree).toEqual({
        agent: 'tree-own/root@v1',
        ...plain,
        dependencies: [
          {
            agent: 'tree-own/middle@v1',
            accessible: true,
            ...plain,
            dependencies: [{ agent: 'tree-own/leaf@v1', accessible: true, ...leaf, dependencies: [] }],
          },
        ],
        summary: { total_agents: 3, total_skills: 1, max_depth: 2, has_locked_skills: true },
      });
      const stranger = await target().addUser('tree-stranger');
      expectError(await call('GET', '/agents/tree-own/root/v1/tree', { key: stranger.key }), 404, 'NOT_FOUND');
      expectError(await call('GET', '/agents/tree-own/root/v9/tree', { key }), 404, 'NOT_FOUND');
    });

    test('hides private agents from other workspaces', async () => {
      const author = await target().addUser('tree-author');
      await published(author.key, { ...PROMPT, name: 'inner' });
      const outer = { ...PROMPT, name: 'outer', is_public: true, ...calling('tree-author/inner') };
      await published(author.key, outer);
      const { key } = await target().addUser('tree-reader');
      const tree = expectOk(await call('GET', '/agents/tree-author/outer/latest/tree', { key }));
      expect(tree.dependencies).toEqual([
        {
          agent: 'tree-author/inner@v1',
          accessible: false,
          type: null,
          skills: [],
          skills_locked: false,
          dependencies: [],
        },
      ]);
    });
  });
}
