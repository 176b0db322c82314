import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, inject, test } from 'vitest';
import { tablePrefixOf } from '#lib/config.ts';
import { AWS_TEST_ACCOUNT, createTables, dynamoDbClient } from '#test/helpers/aws.ts';
import { stage } from '../../stages/dev.ts';

const ROOT = join(import.meta.dirname, '../..');
const { region, credentials } = AWS_TEST_ACCOUNT;

/** The command that `cdk deploy` names in its output. */
async function awsKey(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const env = {
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    AWS_ENDPOINT_URL_DYNAMODB: inject('awsEndpoints').dynamoDb,
  };
  const script = join(ROOT, 'scripts/aws-owner-key.ts');
  const options = { cwd: ROOT, env };
  return promisify(execFile)(process.execPath, [script, ...args], options).then(
    (output) => ({ code: 0, ...output }),
    ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
  );
}

test('the first key is made once, however often it is asked for', { timeout: 180_000 }, async () => {
  const early = await awsKey('dev');
  expect([early.code, early.stdout]).toEqual([1, '']);
  expect(early.stderr).toContain('deploy the stage first');

  await createTables(dynamoDbClient(), (name) => tablePrefixOf(stage) + name);
  const atOnce = await Promise.all([awsKey('dev'), awsKey('dev')]);
  expect(atOnce.map(({ code }) => code)).toEqual([0, 0]);
  expect(atOnce.map(({ stdout }) => stdout).sort()).toEqual(['', expect.stringMatching(/^sk_live_\S+\n$/)]);

  const again = await awsKey('dev');
  expect([again.code, again.stdout]).toEqual([0, '']);
  expect(again.stderr).toContain('npm run aws:key -- dev --another');

  const another = await awsKey('dev', '--another');
  expect(another.stdout).toMatch(/^sk_live_\S+\n$/);
  expect(atOnce.map(({ stdout }) => stdout)).not.toContain(another.stdout);
});

test('a stage that there is not is named', async () => {
  const { code, stderr } = await awsKey('nowhere');
  expect(code).toBe(1);
  expect(stderr).toContain('there is no stage "nowhere", only dev, prod');
});
