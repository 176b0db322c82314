import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { NewLink } from '../../ui/new-link.tsx';

const EXPIRIES = [
  { id: '1', label: '1 day' },
  { id: '7', label: '7 days' },
  { id: '30', label: '30 days' },
];

/** Creates, lists and revokes the links to a run. */
export function ShareDialog({
  run,
  onClose,
}: {
  readonly run: Pick<AnswerOf<'getRun'>, 'id'>;
  readonly onClose: () => void;
}) {
  const { id: workspace_id, role } = useWorkspace();
  const params = { workspace_id, run_id: run.id };
  const { data, error } = useOperation('listRunShares', { params });
  const create = useAction('createRunShare', { stale: ['listRunShares'], silent: true });
  const revoke = useAction('revokeRunShare', { stale: ['listRunShares'] });
  const [days, setDays] = useState('7');
  const isOwner = role === 'owner';
  const made = create.data;
  return (
    <Dialog
      title="Share this run"
      isOpen
      onClose={onClose}
      actions={
        <Button
          variant="primary"
          isDisabled={!isOwner}
          isPending={create.isPending}
          onPress={() => create.mutate({ params, body: { expires_in_days: Number(days) } })}
        >
          Create link
        </Button>
      }
    >
      <p>
        Anyone who has the link can see the input, output, steps and messages of this run without signing in. Secrets
        are masked. Costs and logs are not shown.
      </p>
      {isOwner ? (
        <Select label="Link expires after" choices={EXPIRIES} value={days} onChange={setDays} />
      ) : (
        <p className="text-soft">Only owners of the workspace can create and revoke links.</p>
      )}
      {create.error && <ErrorBox error={create.error} />}
      {made && <NewLink url={made.url} expires_at={made.expires_at} />}
      {error && <ErrorBox error={error} />}
      {!data && !error && <Loading />}
      {data && data.shares.length > 0 && (
        <section className="flex flex-col gap-1">
          <h3 className="font-medium">Active links</h3>
          <ul className="flex flex-col gap-1">
            {data.shares.map(({ id: share_id, created_at, expires_at }) => (
              <li key={share_id} className="flex flex-wrap items-center gap-2">
                <span className="grow">
                  Created <Time at={created_at} />, expires <Time at={expires_at} />
                </span>
                {isOwner && (
                  <Button
                    variant="danger"
                    isPending={revoke.isPending && revoke.variables.params.share_id === share_id}
                    onPress={() => {
                      if (made?.id === share_id) create.reset();
                      revoke.mutate({ params: { ...params, share_id } });
                    }}
                  >
                    Revoke
                  </Button>
                )}
              </li>
            ))}
          </ul>
        </section>
      )}
    </Dialog>
  );
}
