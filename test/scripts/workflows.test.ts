import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ROOT, readWorkflows } from './workflows.ts';

/** What a job may be allowed. Only the job that publishes may ask the registries to trust it. */
const MOST: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  pack: { contents: 'read' },
  publish: { attestations: 'write', contents: 'read', 'id-token': 'write', packages: 'write' },
  attach: { contents: 'write' },
};

const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

describe.each(readWorkflows())('$file', ({ text, permissions, jobs }) => {
  const steps = Object.values(jobs).flatMap((job) => job.steps);
  const runs = steps.flatMap(({ run }) => run ?? []);

  test('may do only what each job needs, and stores no secret', () => {
    expect(permissions).toEqual({});
    expect(Object.fromEntries(Object.entries(jobs).map(([name, job]) => [name, job.permissions]))).toEqual(MOST);
    expect(text).not.toMatch(/\bsecrets\b/);
    for (const { uses, with: settings } of steps)
      if (uses?.startsWith('actions/checkout@')) expect(settings).toMatchObject({ 'persist-credentials': false });
  });

  test('gives the right to write to the repository only to a job that runs none of its code', () => {
    const writers = Object.values(jobs).filter((job) => job.permissions.contents === 'write');
    for (const step of writers.flatMap((job) => job.steps)) {
      expect(step.uses ?? step.run).toMatch(/^actions\/download-artifact@|^gh release create /);
    }
  });

  test('uses actions by their commit, with the version beside it', () => {
    const used = text.split('\n').filter((line) => line.includes('uses:'));
    expect(used.length).toBeGreaterThan(0);
    for (const line of used) expect(line).toMatch(/uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  test('runs commands and paths that exist, and puts no expression into a command', () => {
    for (const run of runs) {
      execFileSync('bash', ['-n', '-c', run]);
      expect(run).not.toContain('${{');
      for (const [, script] of run.matchAll(/npm run ([\w:-]+)/g)) expect(Object.keys(scripts)).toContain(script);
      for (const [, path] of run.matchAll(/(?:^|\s)\.\/([\w./-]+)/g))
        expect(existsSync(join(ROOT, path!)), path).toBe(true);
      // Tools are pinned, too.
      for (const [, tool] of run.matchAll(/pipx install (\S+)/g)) expect(tool).toMatch(/==\d+\.\d+\.\d+$/);
    }
  });
});

test('the image copies only what .dockerignore lets through', () => {
  const ignored = readFileSync(join(ROOT, '.dockerignore'), 'utf8').split('\n');
  const copied = readFileSync(join(ROOT, 'Dockerfile'), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
    .flatMap((line) => line.split(' ').slice(1, -1));
  expect(copied.length).toBeGreaterThan(10);
  for (const path of copied) {
    expect(existsSync(join(ROOT, path)), path).toBe(true);
    expect(ignored, path).toContain(`!${path.split('/')[0]}`);
  }
  // What it lets through is there.
  for (const line of ignored) if (line.startsWith('!')) expect(existsSync(join(ROOT, line.slice(1))), line).toBe(true);
});
