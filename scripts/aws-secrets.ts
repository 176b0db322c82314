import { parseArgs } from 'node:util';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { LambdaClient, paginateListFunctions } from '@aws-sdk/client-lambda';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { parseAwsConfig } from '#aws/config.ts';
import { hostParts, tableParts } from '#aws/deps.ts';
import { createEnvelopeVault } from '#aws/secrets/envelope-vault.ts';
import { deleteMovedSecrets, describeSecrets, type MoveProps, moveSecrets } from '#aws/secrets/move-secrets.ts';
import { MovingVault } from '#aws/secrets/moving-vault.ts';
import type { SecretsPlace } from '#aws/secrets/place.ts';
import { createVault } from '#aws/secrets/secrets-manager-vault.ts';
import { dataKeyAliasOf, functionNameOf, loadStage, type Stage, secretPrefixOf, tablePrefixOf } from '#lib/config.ts';
import { FUNCTIONS, hasFunction } from '#lib/functions.ts';

const HELP = `Usage: npm run aws:secrets -- <action> <stage>

Moves the secrets of a stage between Secrets Manager and envelopes in its table (docs/secrets-on-aws.md).

  status <stage>                          says where the vaults are, and opens each of them
  move <stage> --to envelope              moves all vaults into the table
  move <stage> --to secrets-manager       moves all vaults into Secrets Manager
  clean <stage>                           deletes the copies that a completed move left behind

Options:
  --to <place>   where the secrets go
  --dry-run      with move or clean: says what is where, and changes nothing
  -h, --help     prints this

Before a move, deploy the stage with secrets: 'both'. Runs find their secrets at any time. A move that was stopped
continues when it is repeated, or goes back with the other place. Needs credentials with access to the tables, to the
KMS key of data keys, to the secrets of the stage, and to lambda:ListFunctions.
`;

const PLACES: readonly SecretsPlace[] = ['envelope', 'secrets-manager'];
const isPlace = (text: string | undefined): text is SecretsPlace => PLACES.some((each) => each === text);

function propsOf(stage: Stage): MoveProps {
  const prefix = secretPrefixOf(stage);
  const host = hostParts(parseAwsConfig({ PLATFORM_TABLE_PREFIX: tablePrefixOf(stage) }));
  const { main, counters } = tableParts(host);
  const { clock, ids } = host;
  const dataKey = stage.keyArn ?? dataKeyAliasOf(stage);
  const envelopes = createEnvelopeVault({ prefix, dataKey, main, clock });
  const secretsManager = createVault({ prefix, dataKey, key: stage.keyArn, locks: counters, clock, ids });
  return {
    ...{ envelopes, main, clock, prefix },
    vault: new MovingVault({ secretsManager, envelopes, main, clock }),
    secrets: new SecretsManagerClient(),
    tables: new DynamoDBClient(),
    mainTable: `${tablePrefixOf(stage)}main`,
    say: (line) => process.stdout.write(`${line}\n`),
  };
}

/** Returns the functions that would not find secrets which are moved. */
async function functionsWithoutBoth(stage: Stage): Promise<string[]> {
  const names = Object.entries(FUNCTIONS).flatMap(([fn, { secrets }]) =>
    secrets !== undefined && hasFunction(stage, fn as keyof typeof FUNCTIONS) ? [functionNameOf(stage, fn)] : [],
  );
  const haveBoth = new Set<string>();
  for await (const { Functions = [] } of paginateListFunctions({ client: new LambdaClient() }, {})) {
    for (const { FunctionName = '', Environment } of Functions) {
      if (Environment?.Variables?.PLATFORM_SECRETS === 'both') haveBoth.add(FunctionName);
    }
  }
  return names.filter((each) => !haveBoth.has(each));
}

async function run(): Promise<void> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { to: { type: 'string' }, 'dry-run': { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
  });
  const [action = '', name, ...others] = positionals;
  if (values.help || positionals.length === 0) {
    process.stdout.write(HELP);
    return;
  }
  const isComplete = name !== undefined && others.length === 0 && isPlace(values.to) === (action === 'move');
  if (!['status', 'move', 'clean'].includes(action) || !isComplete) throw new Error(`this is no command.\n\n${HELP}`);
  const stage = await loadStage(name);
  const props = propsOf(stage);
  if (action === 'status' || values['dry-run']) {
    if ((await describeSecrets(props)) > 0) process.exitCode = 1;
    return;
  }
  if (action === 'clean') {
    if ((await deleteMovedSecrets(props)) > 0) process.exitCode = 1;
    return;
  }
  const without = await functionsWithoutBoth(stage);
  if (without.length > 0) {
    throw new Error(
      `these functions have access to one place only: ${without.join(', ')}. Deploy the stage with secrets: 'both', and wait until the deployment has ended.`,
    );
  }
  await moveSecrets(props, values.to as SecretsPlace);
}

await run().catch((error: Error) => {
  process.stderr.write(`aws:secrets: ${error.message}\n`);
  process.exitCode = 1;
});
