import { parseArgs } from 'node:util';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { LambdaClient, paginateListFunctions } from '@aws-sdk/client-lambda';
import { type AwsConfig, parseAwsConfig } from '#aws/config.ts';
import { blobParts, hostParts, serviceLogParts, tableParts, timerParts, vaultParts } from '#aws/deps.ts';
import { DynamoScan } from '#aws/tables/dynamo-scan.ts';
import type { MoveDeps } from '#core/api/moves/freeze.ts';
import { isComplete, isMoveAction, MOVE_OPTIONS, MOVE_OPTIONS_HELP, moveWorkspace } from '#local/moves.ts';

/** Requests and most background work have ended by then: buffered requests end after 29 seconds. */
const SETTLE_MS = 40_000;

interface MoveCommand {
  /** What a user types before the action. */
  readonly command: string;
  /** What the action is followed by. */
  readonly target: string;
  /** Returns the prefix of the stack names, such as `platform-prod`. */
  readonly platformOf: (target: string) => string | Promise<string>;
}

const helpOf = ({ command, target }: MoveCommand): string => {
  const rows = [
    [`export ${target} <workspace> --to <letter>`, 'freezes a workspace, and writes it to a folder'],
    [`import ${target}`, 'writes it into the other cell, where it does not work yet'],
    [`close ${target}`, 'closes it in the old cell, whose answers then name the other one'],
    [`open ${target}`, 'lets it work in the other cell'],
    [`cancel ${target} <workspace>`, 'lets a frozen workspace work again'],
    [`forget ${target} <workspace>`, 'erases a workspace that has moved away, or was never opened'],
  ] as const;
  return `Usage: ${command} <action> ${target} [<workspace>] --folder <folder>

Moves a workspace to another cell (docs/cells.md): export and close act on the old cell, import and open on the new one.

${rows.map(([action, effect]) => `  ${action.padEnd(48)}${effect}`).join('\n')}

Options:
${MOVE_OPTIONS_HELP}
  -h, --help          prints this

Every action may be repeated. Needs credentials with access to the tables, the bucket, the secrets, the key of data keys
(kms:Encrypt, too) and the timers of the platform, and to lambda:ListFunctions.
`;
};

/** Returns the settings of a platform, from its functions. */
async function settingsOf(lambda: LambdaClient, platform: string): Promise<AwsConfig> {
  const variables: Record<string, string> = {};
  for await (const { Functions = [] } of paginateListFunctions({ client: lambda }, {})) {
    for (const { Environment } of Functions) {
      const own = Environment?.Variables ?? {};
      if (own.PLATFORM_TABLE_PREFIX === `${platform}-`) Object.assign(variables, own);
    }
  }
  if (Object.keys(variables).length === 0) {
    throw new Error(`No function of ${platform} is in this Region: name the platform as its stacks begin.`);
  }
  return parseAwsConfig(variables);
}

/** Builds what moves need, with the rights of an operator. */
export async function awsMoveDeps(
  platform: string,
  say: (line: string) => void,
  { lambda = new LambdaClient(), settleMs = SETTLE_MS } = {},
): Promise<MoveDeps> {
  const config = await settingsOf(lambda, platform);
  const host = hostParts(config);
  const tables = tableParts(host);
  return {
    ...host,
    ...tables,
    ...blobParts(host),
    ...vaultParts({ ...host, ...tables }),
    ...timerParts(host),
    ...serviceLogParts(host),
    scan: new DynamoScan(new DynamoDBClient(), config.tablePrefix, host.clock),
    ...{ say, settleMs },
  };
}

async function run(given: MoveCommand): Promise<void> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { ...MOVE_OPTIONS, help: { type: 'boolean', short: 'h' } },
  });
  const [action, target, workspace, ...others] = positionals;
  if (values.help || action === undefined) {
    process.stdout.write(helpOf(given));
    return;
  }
  const isKnown = isMoveAction(action) && target !== undefined && others.length === 0;
  if (!isKnown || !isComplete(action, workspace, values)) throw new Error(`this is no command.\n\n${helpOf(given)}`);
  const deps = await awsMoveDeps(await given.platformOf(target), (line) => void process.stdout.write(`${line}\n`));
  await moveWorkspace(deps, action, workspace, values);
}

/** Moves a workspace, by the arguments of the process. Prints what it does. */
export async function runMoves(given: MoveCommand): Promise<void> {
  await run(given).catch((error: Error) => {
    process.stderr.write(`${given.command}: ${error.message}\n`);
    process.exitCode = 1;
  });
}
