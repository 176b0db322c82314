import { expect, test } from 'vitest';
import { zip } from '#test/helpers/zip.ts';
import { inspectBundle } from './bundle.ts';
import { planInstall } from './install-plan.ts';
import { ownInterpreters } from './interpreters.ts';

const MACHINE = { python: '3.11.2', node: '24.21.0' };

const bundleOf = (files: Readonly<Record<string, string>> = {}) =>
  inspectBundle(zip(Object.entries({ 'main.js': '', ...files }).map(([name, content]) => ({ name, content }))));

test.each<[object | undefined, object]>([
  [undefined, {}],
  [{ pip_flags: '-q' }, {}],
  [{ python_version: '3.11', node_version: '24' }, {}],
  [{ python_version: '3', node_version: '24.21.0' }, {}],
  [
    { python_version: '3.1', node_version: '2' },
    { python: '3.1', node: '2' },
  ],
  [
    { python_version: '3.12', node_version: '24.21.1' },
    { python: '3.12', node: '24.21.1' },
  ],
])('of %j, the interpreters are installed that this machine does not have: %j', async (environment, own) => {
  expect(ownInterpreters({ environment } as never, MACHINE, await bundleOf())).toEqual(own);
});

test('a machine without Python has none of its versions', async () => {
  const own = ownInterpreters({ environment: { python_version: '3.11' } }, { node: '24.0.0' }, await bundleOf());
  expect(own).toEqual({ python: '3.11' });
});

test.each<[what: string, files: Readonly<Record<string, string>>, bun: string | undefined]>([
  ['engines', { 'package.json': '{"engines":{"bun":" >=1.1.0 <2 "}}' }, '>=1.1.0 <2'],
  ['engines with something else', { 'package.json': '{"engines":{"bun":"$(id)"}}' }, '1'],
  ['its lock file', { 'package.json': '{}', 'bun.lock': '{}' }, '1'],
  ['its older lock file', { 'bun.lockb': 'x' }, '1'],
  [
    'a package',
    { 'package.json': '{"dependencies":{"bun":"1.2.0"},"engines":{"bun":"1"}}', 'bun.lock': '' },
    undefined,
  ],
  ['nothing', { 'package.json': '{"engines":{"node":"24"}}' }, undefined],
  ['a broken package.json', { 'package.json': '{' }, undefined],
])('a project that asks for Bun by %s gets it: %j', async (_, files, bun) => {
  const bundle = await bundleOf(files);
  expect(ownInterpreters({} as never, MACHINE, bundle)).toEqual(bun === undefined ? {} : { bun });
  const plan = await planInstall(MACHINE, { workspaceId: 'w', definition: {} as never }, bundle, null);
  const titles = plan?.steps.map(({ title }) => title).filter((title) => title.startsWith('installing')) ?? [];
  expect(titles).toEqual(bun === undefined ? [] : [`installing Bun ${bun}`]);
});

test('they are part of the layer and of its name, and further steps use them', async () => {
  const plan = async (environment: object) => {
    const bundle = await bundleOf({ 'package.json': '{"dependencies":{"a":"1"}}' });
    return (await planInstall(MACHINE, { workspaceId: 'w', definition: { environment } as never }, bundle, null))!;
  };
  const own = await plan({ node_version: '22' });
  expect(own.layerHash).not.toBe((await plan({ node_version: '24' })).layerHash);
  expect(own.layerHash).not.toBe((await plan({ node_version: '20' })).layerHash);
  expect(own.steps[0]!.title).toBe('installing Node.js 22');
  const at = (name: string) => `/home/user/layer/interpreters/${name}/bin`;
  const path = `export PATH=${at('python')}:${at('node')}:${at('bun')}:$PATH\n`;
  expect(own.steps.slice(1).every(({ command }) => command.startsWith(path))).toBe(true);
});
