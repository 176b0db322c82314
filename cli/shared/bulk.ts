import { EXIT } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import type { Cli } from './cli.ts';
import { members } from './output.ts';

type Answer = Awaited<ReturnType<Client['createBulk']>>;
type Bulk = Extract<Answer, { readonly id: string }>;
type Order = Parameters<Client['createBulk']>[0]['body'];

const POLL_MS = 1000;

/** Previews a bulk action, asks for confirmation, and follows it to its end. Returns nothing if no runs match. */
export async function runBulk(cli: Cli, order: Order, what: (count: string) => string): Promise<Bulk | undefined> {
  const client = await cli.client();
  const params = { workspace_id: await cli.workspaceId() };
  const preview = await client.createBulk({ params, body: { ...order, dry_run: true } });
  if (!('sample' in preview) || preview.total === 0) return undefined;
  for (const run of preview.sample)
    cli.output.note(`${run.id.slice(0, 8)}  ${run.agent_name}@${run.agent_version}  ${run.started_at}`);
  if (preview.total > preview.sample.length) cli.output.note(`... and ${preview.total - preview.sample.length} more`);
  await cli.confirm(what(`${preview.total}${preview.total_is_exact ? '' : ' or more'} runs`));
  let bulk = (await client.createBulk({ params, body: order })) as Bulk;
  const { id } = bulk;
  const stop = cli.host.onInterrupt(() => {
    cli.output.note(
      `\nThe bulk action continues: see \`platform bulk info ${id}\`, or stop it with \`platform bulk abort ${id}\`.`,
    );
    cli.host.exit(EXIT.interrupted);
  });
  try {
    let shown = '';
    while (bulk.status === 'running') {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      bulk = await client.getBulk({ params: { ...params, bulk_id: id } });
      const progress = `${bulk.done + bulk.skipped + bulk.failed} of ${bulk.total}`;
      if (progress !== shown) cli.output.note(progress);
      shown = progress;
    }
    return bulk;
  } finally {
    stop();
  }
}

const NONE = { id: null, status: 'completed', message: null, total: 0, done: 0, skipped: 0, failed: 0 } as const;

/** Shows the end of a bulk action; `none` if no runs matched. */
export function showBulk(cli: Cli, ended: Bulk | undefined, none: string): void {
  if (ended === undefined) cli.output.note(none);
  const { id, status, message, total, done, skipped, failed } = ended ?? NONE;
  cli.output.result({ id, status, message, total, done, skipped, failed }, members);
}
