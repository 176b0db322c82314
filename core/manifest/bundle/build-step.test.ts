import { describe, expect, test } from 'vitest';
import { buildOf } from './build-step.ts';
import { filesToCompile } from './typescript.ts';

const bundleOf = (files: Readonly<Record<string, string>>) => ({
  files: Object.keys(files).map((path) => ({ path, size: 1, executable: false })),
  textOf: (path: string) => files[path],
});

describe('the build of a bundle', () => {
  const builds = (file: object, more: Readonly<Record<string, string>> = {}, build?: string[]) =>
    buildOf(bundleOf({ 'package.json': JSON.stringify(file), ...more }), { build })?.commands;

  test.each<[string, object, Record<string, string>]>([
    ['tsc', { scripts: { build: 'rimraf dist && tsc -p .' }, devDependencies: { typescript: '5' } }, {}],
    ['a program of a scope', { scripts: { build: 'nest build' }, devDependencies: { '@nestjs/cli': '1' } }, {}],
    [
      'a program of a dependency beside devDependencies',
      { scripts: { build: 'next build' }, dependencies: { next: '16' }, devDependencies: { typescript: '5' } },
      {},
    ],
    [
      'another script',
      { scripts: { build: 'npm run compile', compile: 'npm run build; vite build' }, devDependencies: { vite: '7' } },
      {},
    ],
    [
      'a program that the lock file names',
      { scripts: { build: 'compile' }, devDependencies: { x: '1' } },
      { 'package-lock.json': '{"packages":{"node_modules/x":{"bin":{"compile":"c.js"}}}}' },
    ],
    ['a file', { scripts: { build: 'node ./make.mjs' }, devDependencies: { esbuild: '1' } }, { 'make.mjs': '' }],
  ])('is the script of package.json that starts %s', (_, file, more) => {
    expect(builds(file, more)).toEqual(['npm run build']);
    expect(builds(file, more, [])).toBeUndefined();
    expect(builds(file, more, ['make'])).toEqual(['make']);
  });

  test.each<[string, object]>([
    ['there are no devDependencies', { scripts: { build: 'tsc' }, dependencies: { typescript: '5' } }],
    ['there is no such script', { scripts: { start: 'tsc' }, devDependencies: { typescript: '5' } }],
    ['it uses no package', { scripts: { build: 'docker build .' }, devDependencies: { typescript: '5' } }],
  ])('is not that script if %s', (_, file) => {
    expect(builds(file)).toBeUndefined();
  });

  test('is none beside a package.json that cannot be read', () => {
    expect(buildOf(bundleOf({ 'package.json': '{' }), {})).toBeUndefined();
    expect(buildOf(bundleOf({ 'package.json': '[null]' }), {})).toBeUndefined();
  });
});

describe('TypeScript that is compiled', () => {
  const none = { runtime: null, run_command: null, entrypoint: null };
  const compiled = (files: Readonly<Record<string, string>>, command?: string) =>
    filesToCompile(bundleOf(files), { ...none, run_command: command ?? null }, 'main.ts');

  test.each<[string, string, Record<string, string>?]>([
    ['an enum', 'export const enum A { x }'],
    ['a namespace', 'namespace A.B { }'],
    ['a decorator', '@Injectable()\nclass A {}'],
    ['a parameter property', 'class A { constructor(\n  private readonly a: string,\n) {} }'],
    ['an import without an extension', `import { a } from './lib/a'`, { 'lib/a.ts': '' }],
    ['an import of a folder', `import { a } from './lib'`, { 'lib/index.ts': '' }],
    ['an import of a .js file that is .ts', `export * from "./a.js"`, { 'a.ts': '' }],
    [
      'a type that is imported without type',
      `import {\n  b,\n  A as C,\n} from './a.ts'`,
      { 'a.ts': 'export interface A {}' },
    ],
    ['an alias', `import { a } from '@/a'`, { 'tsconfig.json': '{"paths": {"@/*": ["./*"]}}' }],
    ['any of these in a file that it imports', `const a = await import('./a.ts')`, { 'a.ts': 'enum A {}' }],
  ])('has %s', (_, text, more = {}) => {
    expect(compiled({ 'main.ts': text, ...more })).toEqual(['main.ts']);
    expect(compiled({ 'main.ts': text, ...more }, 'node ./main.ts x')).toEqual(['main.ts']);
    expect(compiled({ 'main.ts': text, ...more }, 'npx tsx main.ts')).toEqual([]);
    expect(compiled({ 'main.ts': text, ...more }, 'node --import tsx main.ts')).toEqual([]);
  });

  test.each([
    ['what Node can run', `import type { A } from './a.ts';\nimport { b, type C } from './a.ts';\nlet a: A = b as C;`],
    ['words in a text', `const text = 'an enum A { }';\n// @param private x`],
  ])('is not %s', (_, text) => {
    const files = { 'main.ts': text, 'a.ts': 'export type A = number;\nexport interface C {}\nexport const b = 1;' };
    expect(compiled(files)).toEqual([]);
  });
});
