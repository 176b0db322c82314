import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, inject, onTestFinished, test } from 'vitest';
import { EnvelopeVault, secretsContextOf } from '#aws/secrets/envelope-vault.ts';
import { KmsDataKeys } from '#aws/secrets/kms-data-keys.ts';
import { moveSecrets } from '#aws/secrets/move-secrets.ts';
import { MovingVault } from '#aws/secrets/moving-vault.ts';
import { SecretsManagerVault } from '#aws/secrets/secrets-manager-vault.ts';
import { DynamoTable } from '#aws/tables/dynamo-table.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { SystemIds } from '#core/ports/ids.ts';
import { PROJECTIONS, type TableName } from '#core/ports/table-rules.ts';
import { dataKeyAliasOf, functionNameOf, secretPrefixOf, tablePrefixOf } from '#lib/config.ts';
import { FUNCTIONS } from '#lib/functions.ts';
import {
  AWS_TEST_ACCOUNT,
  createKmsKey,
  createTables,
  dynamoDbClient,
  kmsClient,
  secretsManagerClient,
} from '#test/helpers/aws.ts';
import { startFakeLambdaAdmin } from '#test/helpers/fake-lambda-admin.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { stage } from '../../stages/prod.ts';

const ROOT = join(import.meta.dirname, '../..');
const { region, credentials } = AWS_TEST_ACCOUNT;

function start(lambda: string, args: readonly string[], script = 'aws-secrets') {
  const { dynamoDb, moto } = inject('awsEndpoints');
  const env = {
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    AWS_ENDPOINT_URL_DYNAMODB: dynamoDb,
    AWS_ENDPOINT_URL_KMS: moto,
    AWS_ENDPOINT_URL_SECRETS_MANAGER: moto,
    AWS_ENDPOINT_URL_LAMBDA: lambda,
  };
  const child = spawn(process.execPath, [join(ROOT, `scripts/${script}.ts`), ...args], { cwd: ROOT, env });
  const ended = Promise.all([once(child, 'exit'), text(child.stdout), text(child.stderr)]).then(
    ([[code], stdout, stderr]) => ({ code, stdout, stderr }),
  );
  return { child, ended };
}

/** Functions of the stage with this access to secrets. */
async function startLambda(access: string): Promise<string> {
  const functions = Object.entries(FUNCTIONS).map(([fn, { secrets }]) => ({
    name: functionNameOf(stage, fn),
    arn: `arn:aws:lambda:${region}:111122223333:function:${functionNameOf(stage, fn)}`,
    timeoutSeconds: 30,
    environment: {
      PLATFORM_TABLE_PREFIX: tablePrefixOf(stage),
      PLATFORM_SECRET_PREFIX: secretPrefixOf(stage),
      ...(secrets !== undefined && { PLATFORM_SECRETS: access }),
    },
  }));
  const admin = await startFakeLambdaAdmin({ functions, reserved: new Map(), provisioned: new Map(), readers: [] });
  onTestFinished(() => admin.close());
  return admin.url;
}

test('says what it does, and refuses what it does not know', async () => {
  const help = await start('', ['--help']).ended;
  expect([help.code, help.stderr]).toEqual([0, '']);
  for (const word of [
    'status <stage>',
    'move <stage> --to envelope',
    'clean <stage>',
    '--dry-run',
    "secrets: 'both'",
  ]) {
    expect(help.stdout).toContain(word);
  }
  for (const args of [
    ['move', 'prod'],
    ['move', 'prod', '--to', 'elsewhere'],
    ['clean', 'prod', '--to', 'envelope'],
    ['go', 'prod'],
    ['status'],
  ]) {
    const { code, stdout, stderr } = await start('', args).ended;
    expect([code, stdout], args.join(' ')).toEqual([1, '']);
    expect(stderr).toContain('Usage: npm run aws:secrets');
  }
  const nowhere = await start('', ['status', 'nowhere']).ended;
  expect(nowhere.stderr).toBe('npm run aws:secrets --: there is no stage "nowhere", only dev, prod: see stages/\n');
});

test('a stage moves, also after a kill in the middle, and keeps no copy', { timeout: 300_000 }, async () => {
  const tables = dynamoDbClient();
  const names = await createTables(tables, (name) => tablePrefixOf(stage) + name);
  const kms = kmsClient();
  const key = await createKmsKey(kms, dataKeyAliasOf(stage));
  const prefix = secretPrefixOf(stage);
  const secrets = secretsManagerClient();
  const ids = new SystemIds();
  const open = (clock = new SystemClock() as ManualClock) => {
    const table = (name: TableName) => new DynamoTable(tables, names[name], clock, PROJECTIONS[name]);
    const [main, locks] = [table('main'), table('counters')];
    const keysOf = (context: string) => new KmsDataKeys({ client: kms, key, prefix: context });
    const dataKeys = keysOf(prefix);
    const props = { client: secrets, prefix, locks, clock, ids, dataKeys: async () => dataKeys };
    const secretsManager = new SecretsManagerVault(props);
    const envelopes = new EnvelopeVault({ main, clock, dataKeys, secretKeys: keysOf(secretsContextOf(prefix)) });
    return { secretsManager, envelopes, main, vault: new MovingVault({ secretsManager, envelopes, main, clock }) };
  };
  const workspaces = Array.from({ length: 40 }, () => randomUUID());
  const { secretsManager, envelopes, main, vault } = open();
  for (const id of workspaces) await secretsManager.write(id, 'TOKEN', `made-up-${id}`);
  const readAll = async () => {
    for (const id of workspaces) expect(await vault.read(id, ['TOKEN'])).toEqual({ TOKEN: `made-up-${id}` });
  };

  const elsewhere = await start(await startLambda('both'), ['status', 'platform-none'], 'package-secrets').ended;
  expect(elsewhere.stderr).toContain('there is no function platform-none-secrets in this Region');
  const refused = await start(await startLambda('envelope'), ['move', 'prod', '--to', 'envelope']).ended;
  expect([refused.code, refused.stdout]).toEqual([1, '']);
  expect(refused.stderr).toContain('access to one place only: platform-prod-a2a, platform-prod-calls');
  expect(refused.stderr).toContain("Deploy the stage with secrets: 'both'");

  const lambda = await startLambda('both');
  const { child, ended } = start(lambda, ['move', 'prod', '--to', 'envelope']);
  const moved = async () =>
    (await Promise.all(workspaces.map((id) => envelopes.find(id)))).filter(({ values }) => values).length;
  await expect.poll(moved, { timeout: 60_000, interval: 20 }).toBeGreaterThan(2);
  child.kill('SIGKILL');
  await ended;
  const half = await moved();
  expect(half).toBeLessThan(workspaces.length);
  await readAll();
  const status = await start(lambda, ['move', 'prod', '--to', 'envelope', '--dry-run']).ended;
  expect([status.code, status.stderr]).toEqual([0, '']);
  expect(status.stdout).toBe(
    `New and changed secrets go to envelopes, and the others move there.\nIn envelopes: ${half} vaults. In Secrets Manager: ${workspaces.length - half}.\n`,
  );
  expect((await start(lambda, ['clean', 'prod']).ended).stderr).toContain('finish the move first');

  // Repeated; the waiting time passes at once.
  const clock = new ManualClock();
  const again = open(clock);
  const said: string[] = [];
  const props = {
    ...again,
    clock,
    secrets,
    tables,
    mainTable: names.main,
    prefix,
    say: (line: string) => said.push(line),
  };
  const repeated = moveSecrets(props, 'envelope');
  await expect.poll(() => clock.sleepers, { timeout: 60_000 }).toBe(1);
  await clock.advance(60_000);
  await repeated;
  expect(said.at(-1)).toBe(
    `${workspaces.length - half} vaults moved: all secrets are in envelopes. Now deploy the stage with secrets: 'envelope'.`,
  );
  await readAll();

  const asPackage = await start(lambda, ['clean', 'platform-prod', '--dry-run'], 'package-secrets').ended;
  expect(asPackage.stdout).toContain('In envelopes: 40 vaults. In Secrets Manager: 0.');
  const cleaned = await start(lambda, ['clean', 'prod']).ended;
  expect(cleaned).toEqual({ code: 0, stderr: '', stdout: '40 copies deleted, restorable for 30 days. 0 kept.\n' });
  await readAll();
  const broken = workspaces[0]!;
  const head = { pk: `VAULT#${broken}`, sk: 'HEAD' };
  await main.put({ ...(await main.get(head))!, version: 7 });
  const found = await start(lambda, ['status', 'prod']).ended;
  expect(found.code).toBe(1);
  expect(found.stdout).toContain(`the sealed secrets of workspace ${broken} cannot be opened`);
  expect(found.stdout + found.stderr).not.toContain('made-up');
});
