import { Option } from '@commander-js/extra-typings';
import { UsageError } from '#client/usage-error.ts';
import { KEY_SCOPES } from '#core/base/caller.ts';
import { operations } from '../operation.ts';
import type { Configure } from '../shared/cli.ts';
import { members } from '../shared/output.ts';

const UNITS_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Converts an ISO time or a duration such as `30d`, `12h` or `45m` to an ISO time. */
function timeOf(text: string): string {
  const [, count, unit] = /^(\d+)([mhd])$/.exec(text) ?? [];
  const ms = unit ? Date.now() + Number(count) * UNITS_MS[unit as keyof typeof UNITS_MS] : Date.parse(text);
  if (Number.isNaN(new Date(ms).getTime()))
    throw new UsageError(
      `Invalid --expires "${text}": use a duration such as 30d or 12h, or a date such as 2027-01-31.`,
    );
  return new Date(ms).toISOString();
}

const keys: Configure = (command, cli) => {
  operations([
    {
      name: 'list',
      operation: 'listApiKeys',
      columns: ['id', 'name', 'prefix', 'scope', 'workspace_id', 'expires_at', 'last_used_at'],
      example: 'keys list',
    },
    {
      name: 'delete',
      operation: 'deleteApiKey',
      confirm: 'Revoke the key and sign out its clients',
      example: 'keys delete KEY_ID --yes',
    },
    {
      name: 'sessions',
      operation: 'listKeySessions',
      list: 'sessions',
      columns: ['id', 'created_at', 'last_seen_at', 'user_agent'],
      example: 'keys sessions KEY_ID',
    },
    {
      name: 'end-session',
      operation: 'deleteKeySession',
      example: 'keys end-session KEY_ID SESSION_ID',
    },
  ])(command, cli);
  command
    .command('create')
    .description('Create an API key; it is shown only once. With --workspace, it is limited to that workspace')
    .argument('<name>')
    .addOption(
      new Option('--scope <scope>', 'Permissions of the key (default: manage, full access)').choices(KEY_SCOPES),
    )
    .option('--expires <when>', 'Expiration: 30d, 12h, or a date such as 2027-01-31')
    .addHelpText('after', "\nExample:\n  $ platform keys create 'build server' --scope run --expires 90d")
    .action(async (name, { scope, expires }) => {
      const workspace_id = cli.options.workspace === undefined ? undefined : await cli.workspaceId();
      const expires_at = expires === undefined ? undefined : timeOf(expires);
      const body = { name, scope, workspace_id, expires_at };
      cli.output.result(await (await cli.client()).createApiKey({ body }), members);
    });
};

export default keys;
