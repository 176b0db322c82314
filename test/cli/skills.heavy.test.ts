import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { zipSync } from 'fflate';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type LocalTarget, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, type Settings, signedInAt, tempFolder } from './command-line.ts';

let target: LocalTarget;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
});
afterAll(() => target?.close());

const platform = (line: string, settings?: Settings) => commandLine(line.split(' '), signedInAt(target, settings));
const read = (folder: string, path: string): string => readFileSync(join(folder, path), 'utf8');

/** The hash of each file below a folder, by its path. */
const hashesIn = (folder: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [path.slice(folder.length + 1), createHash('sha256').update(readFileSync(path)).digest('hex')]),
  );

/** Look-alikes of public skills with many schemas, fonts, a PDF, an archive, and a long description. */
function publicSkills(): Record<string, Uint8Array> {
  const files: Record<string, string | Uint8Array> = { 'README.md': 'Skills', 'spec/notes.md': 'x' };
  const skill = (name: string, more: Record<string, string | Uint8Array>, description = 'Use it often.') => {
    files[`skills/${name}/SKILL.md`] =
      `---\nname: ${name}\ndescription: ${description}\nlicense: x\n---\n\n# ${name}\n`;
    files[`skills/${name}/LICENSE.txt`] = 'All rights reserved.';
    for (const [path, content] of Object.entries(more)) files[`skills/${name}/${path}`] = content;
  };
  const many = (count: number, pathOf: (index: number) => string, content: (index: number) => string | Uint8Array) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [pathOf(index), content(index)]));
  const schemas = many(
    40,
    (index) => `ooxml/schemas/${index}.xsd`,
    (index) => `<xs:element name="e${index}"/>\n`.repeat(1000),
  );
  skill('docx', { ...schemas, 'scripts/pack.py': '#!/usr/bin/env python3\nprint(1)\n' });
  skill(
    'claude-api',
    many(
      30,
      (index) => `reference/${index}.md`,
      () => 'ü'.repeat(5000),
    ),
    'Read this first. '.repeat(90),
  );
  skill(
    'canvas-design',
    many(
      54,
      (index) => `canvas-fonts/${index}.ttf`,
      () => randomBytes(60_000),
    ),
  );
  skill('theme-factory', { 'theme-showcase.pdf': randomBytes(120_000), 'themes/a.md': '# A' });
  skill('web-artifacts-builder', { 'scripts/components.tar.gz': randomBytes(20_000) });
  return Object.fromEntries(
    Object.entries(files).map(([path, content]) => [`skills-main/${path}`, Buffer.from(content as string)]),
  );
}

test('public skills are installed from an archive, published unchanged, and installed from the platform', async () => {
  const cwd = tempFolder();
  const archive = zipSync(publicSkills(), { level: 0 });
  writeFileSync(join(cwd, 'skills.zip'), archive);
  const all = ['canvas-design', 'claude-api', 'docx', 'theme-factory', 'web-artifacts-builder'];
  const { json } = await platform('skill install ./skills.zip --all --to mine', { cwd });
  expect(json.map(({ skill }: { skill: string }) => skill)).toEqual(all);
  expect(json[2].files).toHaveLength(42);
  for (const name of all) {
    const published = await platform(`publish mine/${name}`, { cwd });
    expect(published, published.stderr).toMatchObject({ status: 0, json: { agent: { name } } });
    const isLong = name === 'claude-api';
    expect(published.json.warnings).toEqual(isLong ? [expect.stringContaining('The description was cut to')] : []);
    expect((await platform(`publish mine/${name}`, { cwd })).json).toMatchObject({ unchanged: true });
    const back = await platform(`skill install ${name} --to back`, { cwd });
    expect(back, back.stderr).toMatchObject({ status: 0 });
    const [mine, own] = [hashesIn(join(cwd, 'mine', name)), hashesIn(join(cwd, 'back', name))];
    expect({ ...own, 'SKILL.md': '' }).toEqual({ ...mine, 'SKILL.md': '' });
  }
  expect(read(cwd, 'back/claude-api/SKILL.md').split('\n')[2]!.length).toBeLessThan(1100);
  expect((await platform('publish mine/canvas-design --dry-run', { cwd })).json).toMatchObject({ dry_run: true });

  const addresses: string[] = [];
  const host: typeof fetch = async (input) => {
    addresses.push(String(input));
    return new Response(archive as Uint8Array<ArrayBuffer>);
  };
  const address = 'https://github.com/someone/skills/tree/main/skills/theme-factory';
  const fetched = await platform(`skill install ${address} --to fetched`, { cwd, fetch: host });
  expect(fetched.json).toMatchObject({
    skill: 'theme-factory',
    files: ['SKILL.md', 'theme-showcase.pdf', 'themes/a.md'],
  });
  expect(addresses).toEqual(['https://github.com/someone/skills/archive/main.zip']);
  expect((await platform('skill install ./mine/docx --to copied', { cwd })).json.files).toHaveLength(42);
  const several = await platform('skill install ./skills.zip', { cwd });
  expect(several).toMatchObject({ status: 5, stderr: expect.stringContaining(`has 5 skills: ${all.join(', ')}`) });
  expect((await platform('skill install ./skills.zip --name docx --to named', { cwd })).json.skill).toBe('docx');
}, 120_000);
