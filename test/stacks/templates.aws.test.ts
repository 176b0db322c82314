import { execFile } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { defineStage } from '#lib/config.ts';
import { synthesise, TEST_REGION } from '#test/helpers/templates.ts';
import { fetchAwsEmulators } from '../../scripts/fetch-test-tools.ts';
import { stage as dev } from '../../stages/dev.ts';
import { everythingAsked } from './everything-asked.ts';
import { ACCOUNT_RULES, NETWORK_OF_YOURS, PRIVATE_NETWORKS } from './props.ts';

const microvms = defineStage({ ...dev, sandbox: { kind: 'microvm' } });
const ownDns = defineStage({
  ...everythingAsked,
  name: 'owndns',
  services: { domain: { name: 'services.example.org', certificateArn: everythingAsked.domain!.certificateArn } },
});
/** Between them they have every resource. */
const stages = [dev, everythingAsked, microvms, ownDns, ACCOUNT_RULES, PRIVATE_NETWORKS, NETWORK_OF_YOURS].map(
  (stage) => ({ name: stage.name, folder: synthesise(stage).app.outdir }),
);

async function run(command: string, args: string[]): Promise<{ code: number; output: string }> {
  // Neither looks for an account, nor at what another version told this user.
  const env = { PATH: process.env.PATH, HOME: mkdtempSync(join(tmpdir(), 'platform-home-')), CI: 'true' };
  return promisify(execFile)(command, args, { env, maxBuffer: 64 * 1024 ** 2 }).then(
    ({ stdout, stderr }) => ({ code: 0, output: stdout + stderr }),
    ({ code, stdout, stderr }) => ({ code, output: stdout + stderr }),
  );
}

test('cfn-lint finds nothing in the templates', { timeout: 600_000 }, async () => {
  const { python } = fetchAwsEmulators();
  const main = 'import sys; from cfnlint.runner import main; sys.exit(main())';
  // A stack that two stages have in common is checked once.
  const templates = new Map<string, string>();
  for (const { name, folder } of stages)
    for (const file of globSync(join(folder, '*.template.json')))
      templates.set(readFileSync(file, 'utf8').replaceAll(name, 'stage'), file);
  expect(templates.size).toBeGreaterThan(20);
  // W3005: the CDK says once more that a function needs its role. W3010: a stage may name its zones.
  const args = ['--regions', TEST_REGION, '--ignore-checks', 'W3005', 'W3010', '--format', 'parseable', '--'];
  expect(await run(python, ['-c', main, ...args, ...templates.values()])).toEqual({ code: 0, output: '' });
});

test.each(stages)('cdk validate finds nothing in $folder', { timeout: 300_000 }, async ({ folder }) => {
  const args = ['validate', '--unstable=validate', '--no-notices', '--app', folder];
  const { code, output } = await run('node_modules/.bin/cdk', args);
  // `platform.aws.test.ts` bounds the number of resources.
  const found = output.match(/^.*\b(INFO|WARNING|ERROR)\b.*$/gm) ?? ['Validation did not find any problems.'];
  expect(output).toContain(found[0]);
  expect(
    found.filter((line) => !/^(INFO Number of resources: \d+ is approaching|Validation did not)/.test(line.trim())),
  ).toEqual([]);
  expect(code).toBe(0);
});
