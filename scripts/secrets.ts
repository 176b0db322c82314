import { parseArgs } from 'node:util';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { LambdaClient, paginateListFunctions } from '@aws-sdk/client-lambda';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { type AwsConfig, parseAwsConfig } from '#aws/config.ts';
import { hostParts, tableParts } from '#aws/deps.ts';
import { createEnvelopeVault } from '#aws/secrets/envelope-vault.ts';
import { deleteMovedSecrets, describeSecrets, type MoveProps, moveSecrets } from '#aws/secrets/move-secrets.ts';
import { MovingVault } from '#aws/secrets/moving-vault.ts';
import type { SecretsPlace } from '#aws/secrets/place.ts';
import { createVault } from '#aws/secrets/secrets-manager-vault.ts';
import { FUNCTIONS } from '#lib/functions.ts';

interface SecretsCommand {
  /** What a user types before the action. */
  readonly command: string;
  /** What the action is followed by. */
  readonly target: string;
  /** Returns the prefix of the stack names, such as `platform-prod`. */
  readonly platformOf: (target: string) => string | Promise<string>;
}

const helpOf = ({ command, target }: SecretsCommand): string => {
  const rows = [
    [`status ${target}`, 'says where the vaults are, and opens each of them'],
    [`move ${target} --to envelope`, 'moves all vaults into the table'],
    [`move ${target} --to secrets-manager`, 'moves all vaults into Secrets Manager'],
    [`clean ${target}`, 'deletes the copies that a completed move left behind'],
  ] as const;
  return `Usage: ${command} <action> ${target}

Moves the secrets of a platform between Secrets Manager and envelopes in its table (docs/secrets-on-aws.md).

${rows.map(([action, effect]) => `  ${action.padEnd(38)}${effect}`).join('\n')}

Options:
  --to <place>   where the secrets go
  --dry-run      with move or clean: says what is where, and changes nothing
  -h, --help     prints this

Before a move, deploy the stage with secrets: 'both'. Runs find their secrets at any time. A move that was stopped
continues when it is repeated, or goes back with the other place. Needs credentials with access to the tables, to the
KMS key of data keys, to the secrets of the platform, and to lambda:ListFunctions.
`;
};

const PLACES: readonly SecretsPlace[] = ['envelope', 'secrets-manager'];
const isPlace = (text: string | undefined): text is SecretsPlace => PLACES.some((each) => each === text);

/** Returns the settings of the deployed functions that use secrets, by name. */
async function settingsOf(platform: string): Promise<Map<string, AwsConfig>> {
  const wanted = new Set(
    Object.entries(FUNCTIONS).flatMap(([fn, { secrets }]) => (secrets === undefined ? [] : [`${platform}-${fn}`])),
  );
  const found = new Map<string, AwsConfig>();
  for await (const { Functions = [] } of paginateListFunctions({ client: new LambdaClient() }, {})) {
    for (const { FunctionName = '', Environment } of Functions) {
      if (wanted.has(FunctionName)) found.set(FunctionName, parseAwsConfig(Environment?.Variables ?? {}));
    }
  }
  return found;
}

function propsOf(platform: string, config: AwsConfig): MoveProps {
  const { secretPrefix: prefix, secretKey: key, dataKey = `alias/${platform}-data-keys`, tablePrefix } = config;
  const host = hostParts(config);
  const { main, counters: locks } = tableParts(host);
  const { clock, ids } = host;
  const envelopes = createEnvelopeVault({ prefix, dataKey, main, clock });
  const secretsManager = createVault({ prefix, dataKey, key, locks, clock, ids });
  return {
    ...{ envelopes, main, clock, prefix },
    vault: new MovingVault({ secretsManager, envelopes, main, clock }),
    secrets: new SecretsManagerClient(),
    tables: new DynamoDBClient(),
    mainTable: `${tablePrefix}main`,
    say: (line) => process.stdout.write(`${line}\n`),
  };
}

async function run(given: SecretsCommand): Promise<void> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { to: { type: 'string' }, 'dry-run': { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
  });
  const [action = '', target, ...others] = positionals;
  if (values.help || positionals.length === 0) {
    process.stdout.write(helpOf(given));
    return;
  }
  const hasPlace = action === 'move' ? isPlace(values.to) : values.to === undefined;
  if (!['status', 'move', 'clean'].includes(action) || target === undefined || others.length > 0 || !hasPlace) {
    throw new Error(`this is no command.\n\n${helpOf(given)}`);
  }
  const platform = await given.platformOf(target);
  const settings = await settingsOf(platform);
  const config = settings.get(`${platform}-secrets`);
  if (config === undefined)
    throw new Error(`there is no function ${platform}-secrets in this Region: deploy it first.`);
  const props = propsOf(platform, config);
  if (action === 'status' || values['dry-run']) {
    if ((await describeSecrets(props)) > 0) process.exitCode = 1;
    return;
  }
  if (action === 'clean') {
    if ((await deleteMovedSecrets(props)) > 0) process.exitCode = 1;
    return;
  }
  const without = [...settings].filter(([, { secrets }]) => secrets !== 'both').map(([name]) => name);
  if (without.length > 0) {
    throw new Error(
      `these functions have access to one place only: ${without.join(', ')}. Deploy the stage with secrets: 'both', and wait until the deployment has ended.`,
    );
  }
  await moveSecrets(props, values.to as SecretsPlace);
}

/** Shows or moves the secrets of a platform, by the arguments of the process. Prints what it does. */
export async function runSecrets(given: SecretsCommand): Promise<void> {
  await run(given).catch((error: Error) => {
    process.stderr.write(`${given.command}: ${error.message}\n`);
    process.exitCode = 1;
  });
}
