import { Ban, RotateCw } from 'lucide-react';
import { useState } from 'react';
import type { AnswerOf, ArgumentsOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { isNotFound } from '../../api-error.ts';
import { Button } from '../../ui/button.tsx';
import { count } from '../../ui/data/numbers.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';

type Body = ArgumentsOf<'createBulk'>['body'];
type Action = Body['action'];
/** Selected run ids, or a filter. */
export type BulkSelection = Pick<Body, 'run_ids' | 'filter'>;
type Bulk = Extract<AnswerOf<'createBulk'>, { readonly id: string }>;
type Preview = Extract<AnswerOf<'createBulk'>, { readonly dry_run: true }>;

const POLL_MS = 1_000;
const VERBS: Readonly<Record<Action, string>> = { cancel: 'Cancel', replay: 'Replay' };

/** Cancels or replays the selected runs, or all that match the filters. */
export function BulkBar({
  meant,
  chosen,
  onStart,
}: {
  /** Undefined if the filters cannot be used for a bulk action. */
  readonly meant: BulkSelection | undefined;
  /** Number of selected runs; 0 applies the action to all matching runs. */
  readonly chosen: number;
  readonly onStart: (bulkId: string) => void;
}) {
  const [action, setAction] = useState<Action>();
  return (
    <div className="flex flex-wrap items-center gap-2" role="toolbar" aria-label="Bulk actions">
      <span className="text-soft">{chosen > 0 ? `${count(chosen)} selected` : 'All matching runs'}</span>
      <Button icon={Ban} isDisabled={meant === undefined} onPress={() => setAction('cancel')}>
        Cancel…
      </Button>
      <Button icon={RotateCw} isDisabled={meant === undefined} onPress={() => setAction('replay')}>
        Replay…
      </Button>
      {action !== undefined && meant !== undefined && (
        <BulkDialog action={action} meant={meant} onClose={() => setAction(undefined)} onStart={onStart} />
      )}
    </div>
  );
}

function BulkDialog({
  action,
  meant,
  onClose,
  onStart,
}: {
  readonly action: Action;
  readonly meant: BulkSelection;
  readonly onClose: () => void;
  readonly onStart: (bulkId: string) => void;
}) {
  const { id: workspace_id } = useWorkspace();
  const params = { workspace_id };
  const preview = useOperation(
    'createBulk',
    { params, body: { action, ...meant, dry_run: true } },
    { staleTime: 0, gcTime: 0 },
  );
  const create = useAction('createBulk', { silent: true });
  const found = preview.data as Preview | undefined;
  const start = async () => {
    const bulk = (await create.mutateAsync({ params, body: { action, ...meant } })) as Bulk;
    onStart(bulk.id);
    onClose();
  };
  const error = preview.error ?? create.error;
  return (
    <Dialog
      title={`${VERBS[action]} runs`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Close</Button>
          <Button
            variant={action === 'cancel' ? 'danger' : 'primary'}
            isDisabled={!found || found.total === 0}
            isPending={create.isPending}
            onPress={() => void start().catch(() => {})}
          >
            {VERBS[action]} {found ? `${count(found.total)}${found.total_is_exact ? '' : ' or more'}` : ''} runs
          </Button>
        </>
      }
    >
      {error && <ErrorBox error={error} />}
      {!found && !error && <Loading />}
      {found && (
        <>
          <p>
            {action === 'cancel'
              ? 'Running runs are cancelled, with their sub-calls. Finished runs do not change.'
              : 'Finished runs are repeated as new runs with the same version and input.'}
            {found.filter?.from && ` Since ${new Date(found.filter.from).toLocaleString()}.`}
          </p>
          <ul className="flex flex-col gap-1">
            {found.sample.map((run) => (
              <li key={run.id} className="flex items-center gap-2">
                <span className="font-mono">{run.id.slice(0, 8)}</span>
                <Status value={run.status} />
                <span className="truncate">{`${run.agent_name}@${run.agent_version}`}</span>
              </li>
            ))}
          </ul>
          {found.total > found.sample.length && (
            <p className="text-soft">and {count(found.total - found.sample.length)} more</p>
          )}
        </>
      )}
    </Dialog>
  );
}

/** Progress of a bulk action, shown until the user closes it. */
export function BulkProgress({ id, onClose }: { readonly id: string; readonly onClose: () => void }) {
  const { id: workspace_id } = useWorkspace();
  const params = { workspace_id, bulk_id: id };
  const { data: bulk, error } = useOperation(
    'getBulk',
    { params },
    { refetchInterval: ({ state }) => (state.data === undefined || state.data.status === 'running' ? POLL_MS : false) },
  );
  const abort = useAction('abortBulk', { stale: ['getBulk'] });
  if (isNotFound(error)) return null;
  if (error && !bulk) return <ErrorBox error={error} />;
  if (!bulk) return <Loading />;
  const ready = bulk.done + bulk.skipped + bulk.failed;
  const total = Math.max(bulk.total, ready);
  const did = bulk.action === 'cancel' ? 'cancelled' : 'replayed';
  return (
    <Section
      title={bulk.action === 'cancel' ? 'Cancelling runs' : 'Replaying runs'}
      actions={
        <>
          <Status value={bulk.status} />
          {bulk.status === 'running' ? (
            <Button variant="danger" isPending={abort.isPending} onPress={() => abort.mutate({ params })}>
              Stop
            </Button>
          ) : (
            <Button onPress={onClose}>Close</Button>
          )}
        </>
      }
    >
      <div className="flex flex-col gap-2">
        <progress className="h-2 w-full accent-accent" aria-label="Progress" max={total} value={ready} />
        <p role="status">
          {count(bulk.done)} of {count(total)}
          {bulk.total_is_exact ? '' : ' or more'} {did}
          {bulk.skipped > 0 && `, ${count(bulk.skipped)} already ended`}
          {bulk.failed > 0 && `, ${count(bulk.failed)} failed`}
        </p>
        {bulk.message !== null && <p className="text-warn">{bulk.message}</p>}
        {bulk.failures.length > 0 && (
          <ul className="text-soft">
            {bulk.failures.map(({ run_id, code, message }) => (
              <li key={run_id}>
                <span className="font-mono">{run_id.slice(0, 8)}</span> {code}: {escapeText(message)}
              </li>
            ))}
          </ul>
        )}
      </div>
    </Section>
  );
}
