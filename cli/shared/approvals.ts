import { UsageError } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import { printable, textOf } from './output.ts';

type Approval = Awaited<ReturnType<Client['getApproval']>>;

/** Finds what waits by its id, or by the first digits of its run. Throws UsageError if that is not exactly one. */
export async function findWaiting(client: Client, workspace_id: string, id: string): Promise<Approval> {
  if (/\.\d+\.\d+$/.test(id)) return client.getApproval({ params: { workspace_id, approval_id: id } });
  const query = { status: 'waiting', limit: 200 } as const;
  const { approvals } = await client.listApprovals({ params: { workspace_id }, query });
  const found = approvals.filter(
    (each) => each.id.startsWith(id) && (each.kind === 'approve' || each.kind === 'answer'),
  );
  if (found.length === 1) return found[0]!;
  if (found.length === 0)
    throw new UsageError(`Nothing waits whose id begins with "${id}": see \`platform approvals\`.`);
  const ids = found.slice(0, 10).map((each) => each.id);
  throw new UsageError(
    `${found.length} calls wait whose ids begin with "${id}": ${ids.join(', ')}. Give the whole id.`,
  );
}

/** Says what waits, in a line. */
export function approvalLine({ id, agent_name, kind, tool, arguments: args, question }: Approval): string {
  const what = kind === 'answer' ? textOf(question) : `${tool} ${JSON.stringify(args)}`;
  return printable(`${id}  ${agent_name}  ${what}`);
}

interface Waiting {
  readonly approvals?: readonly {
    readonly id: string;
    readonly kind: string;
    readonly tool: string;
    readonly question?: string;
  }[];
  readonly until?: unknown;
}

/** Says what a run waits for, and how somebody decides: the progress record `waiting`, as lines. */
export const waitingText = ({ approvals = [], until }: Waiting): string =>
  approvals
    .map(({ id, kind, tool, question }) => {
      if (kind === 'time') return `Waiting until ${String(until)}.`;
      const what = kind === 'answer' ? `an answer: ${question}` : `an approval of ${tool}`;
      return `${printable(`Waiting for ${what}`)}\n  platform approve ${id}${kind === 'answer' ? ' --answer TEXT' : ''}`;
    })
    .join('\n');
