import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { circlesOf, importsOf, problemsOf, readImports } from '../../scripts/house.ts';

/** File -> its text, as a house of its own. */
function problemsIn(files: Record<string, string>): string[] {
  return problemsOf(new Map(Object.entries(files).map(([file, text]) => [file, importsOf(file, text)])));
}

test('the repository keeps the order of its wings and has no circle', () => {
  const imports = readImports(join(import.meta.dirname, '../..'));
  expect(imports.size).toBeGreaterThan(300);
  expect(problemsOf(imports)).toEqual([]);
});

describe('refuses', () => {
  test.each<[string, Record<string, string>]>([
    [
      'an import up',
      { 'core/runs/run.ts': `import { begin } from '#core/execution/call.ts';`, 'core/execution/call.ts': '' },
    ],
    [
      'a type from a wing above',
      { 'core/base/a.ts': `import type { Route } from '../http/route.ts';`, 'core/http/route.ts': '' },
    ],
    [
      'a type from a wing above, named by import()',
      { 'core/base/a.ts': `type Route = import('../http/route.ts').Route;`, 'core/http/route.ts': '' },
    ],
    [
      'a type that is exported on from a wing above',
      { 'core/base/a.ts': `export type { Route } from '../http/route.ts';`, 'core/http/route.ts': '' },
    ],
    [
      'an import between two wings that know nothing of each other',
      { 'core/collaboration/a.ts': `import '#core/automation/b.ts';`, 'core/automation/b.ts': '' },
    ],
    ['a folder of core that is no wing', { 'core/extra/a.ts': `import '#core/base/b.ts';`, 'core/base/b.ts': '' }],
    [
      "another resource's handlers",
      { 'core/runs/a.ts': `import '#core/agents/handlers.ts';`, 'core/agents/handlers.ts': '' },
    ],
    ['a store in rows of routes', { 'core/runs/routes.ts': `import './store.ts';`, 'core/runs/store.ts': '' }],
    ['core that imports a host', { 'core/runs/a.ts': `import '#local/deps.ts';`, 'local/deps.ts': '' }],
    ["a vendor's SDK in core", { 'core/runs/a.ts': `import { S3Client } from '@aws-sdk/client-s3';` }],
    ['CDK in a function', { 'functions/calls/index.ts': `import { Stack } from 'aws-cdk-lib';` }],
    [
      'a store that synth would load',
      {
        'lib/a.ts': `import '#core/api/routes.ts';`,
        'core/api/routes.ts': `import '#core/runs/x.ts';`,
        'core/runs/x.ts': `import './store.ts';`,
        'core/runs/store.ts': '',
      },
    ],
    [
      'code of core in a browser',
      { 'dashboard/src/a.tsx': `import { routes } from '#core/api/routes.ts';`, 'core/api/routes.ts': '' },
    ],
    [
      'a circle of types in the dashboard',
      {
        'dashboard/src/a.tsx': `import type { B } from './b.tsx';`,
        'dashboard/src/b.tsx': `import type { A } from './a.tsx';`,
      },
    ],
    ['React in core', { 'core/runs/a.ts': `import { useState } from 'react';` }],
    ['tests in the product', { 'core/runs/a.ts': `import '#test/helpers/b.ts';`, 'test/helpers/b.ts': '' }],
  ])('%s', (_, files) => {
    expect(problemsIn(files)).toHaveLength(1);
  });

  test('a circle, also one of types in tests', () => {
    const problems = problemsIn({
      'core/base/a.ts': `import type { B } from './b.ts';`,
      'core/base/b.ts': `import { c } from './c.ts';`,
      'core/base/c.ts': `import './a.ts';`,
      'test/x.ts': `import type { Y } from './y.ts';`,
      'test/y.ts': `import type { X } from './x.ts';`,
    });
    expect(problems).toEqual([
      'These files import each other: core/base/a.ts, core/base/b.ts, core/base/c.ts.',
      'These files import each other: test/x.ts, test/y.ts.',
    ]);
  });
});

test('two circles that touch are one', () => {
  const imports = new Map([
    ['a', ['b']],
    ['b', ['a', 'c']],
    ['c', ['b']],
    ['d', ['a']],
  ]);
  expect(circlesOf(imports)).toEqual([['a', 'b', 'c']]);
});
