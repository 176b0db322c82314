import { awsDeps } from '#aws/all-deps.ts';
import { parseAwsConfig } from '#aws/config.ts';
import { bootstrap, createOwnerKey } from '#core/accounts/workspaces/bootstrap.ts';

export interface OwnerKeyOptions {
  /** Table prefix of the deployed platform, such as `platform-prod-`. */
  readonly tablePrefix: string;
  /** Letter of its cell. */
  readonly cell: string | undefined;
  /** Whether to create another key if a workspace exists. */
  readonly isFurther: boolean;
  /** Commands that create another key and that deploy the platform, for messages. */
  readonly further: string;
  readonly deploy: string;
}

/**
 * Creates the first workspace and prints the API key of its owner once. Idempotent. PLATFORM_WORKSPACE and
 * PLATFORM_OWNER_EMAIL name them. Requires credentials with access to the main table.
 */
export async function printOwnerKey({ tablePrefix, cell, isFurther, further, deploy }: OwnerKeyOptions): Promise<void> {
  const deps = awsDeps(
    parseAwsConfig({ ...process.env, PLATFORM_TABLE_PREFIX: tablePrefix, ...(cell && { PLATFORM_CELL: cell }) }),
  );
  try {
    const first = await bootstrap(deps);
    if (first === undefined && !isFurther) {
      process.stderr.write(
        `There is a first workspace already, and its key was shown then.\nFor another key of its owner: ${further}\n`,
      );
    } else {
      process.stdout.write(`${first ?? (await createOwnerKey(deps, 'made by the operator')).key}\n`);
    }
  } catch (error) {
    if (!(error instanceof Error && error.name === 'ResourceNotFoundException')) throw error;
    process.stderr.write(
      `There is no table ${tablePrefix}main: deploy the stage first (${deploy}), and set AWS_REGION to where it is.\n`,
    );
    process.exitCode = 1;
  }
}
