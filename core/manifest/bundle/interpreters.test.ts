import { expect, test } from 'vitest';
import { zip } from '#test/helpers/zip.ts';
import { inspectBundle } from './bundle.ts';
import { planInstall } from './install-plan.ts';
import { ownInterpreters } from './interpreters.ts';

const MACHINE = { python: '3.11.2', node: '24.21.0' };

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
])('of %j, the interpreters are installed that this machine does not have: %j', (environment, own) => {
  expect(ownInterpreters({ environment } as never, MACHINE)).toEqual(own);
});

test('a machine without Python has none of its versions', () => {
  expect(ownInterpreters({ environment: { python_version: '3.11' } }, { node: '24.0.0' })).toEqual({ python: '3.11' });
});

test('they are part of the layer and of its name, and further steps use them', async () => {
  const plan = async (environment: object) => {
    const files = [
      { name: 'main.js', content: '' },
      { name: 'package.json', content: '{"dependencies":{"a":"1"}}' },
    ];
    const bundle = await inspectBundle(zip(files));
    return (await planInstall(MACHINE, { workspaceId: 'w', definition: { environment } as never }, bundle, null))!;
  };
  const own = await plan({ node_version: '22' });
  expect(own.layerHash).not.toBe((await plan({ node_version: '24' })).layerHash);
  expect(own.layerHash).not.toBe((await plan({ node_version: '20' })).layerHash);
  expect(own.steps[0]!.title).toBe('installing Node.js 22');
  const path = 'export PATH=/home/user/layer/interpreters/python/bin:/home/user/layer/interpreters/node/bin:$PATH\n';
  expect(own.steps.slice(1).every(({ command }) => command.startsWith(path))).toBe(true);
});
