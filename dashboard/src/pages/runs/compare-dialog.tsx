import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';

const LATEST = 10;

/** Asks which run to compare a run with: one of the agent's latest runs, or any other by its id. */
export function CompareDialog({
  run,
  onClose,
}: {
  readonly run: Pick<AnswerOf<'getRun'>, 'id' | 'agent_name'>;
  readonly onClose: () => void;
}) {
  const { id: workspace_id, slug: workspace } = useWorkspace();
  const navigate = useNavigate();
  const [other, setOther] = useState('');
  const query = { agent_name: run.agent_name, limit: LATEST + 1 };
  const { data, error } = useOperation('listRuns', { params: { workspace_id }, query });
  const others = (data?.runs ?? []).filter(({ id }) => id !== run.id).slice(0, LATEST);
  return (
    <Dialog
      title="Compare with another run"
      isOpen
      onClose={onClose}
      actions={
        <Button
          variant="primary"
          isDisabled={other.trim() === ''}
          onPress={() =>
            void navigate({
              to: '/$workspace/runs/compare',
              params: { workspace },
              search: { a: run.id, b: other.trim() },
            })
          }
        >
          Compare
        </Button>
      }
    >
      <TextField
        label="Run ID"
        value={other}
        onChange={setOther}
        description="A run ID, or at least its first 7 characters."
      />
      {error && <ErrorBox error={error} />}
      {!data && !error && <Loading />}
      {others.length > 0 && (
        <ul aria-label="Latest runs of the agent" className="flex flex-col gap-1">
          {others.map(({ id, status, created_at }) => (
            <li key={id} className="flex items-center gap-2">
              <Link
                to="/$workspace/runs/compare"
                params={{ workspace }}
                search={{ a: run.id, b: id }}
                className="font-mono"
              >
                {id.slice(0, 8)}
              </Link>
              <Status value={status} />
              <span className="text-soft">
                <Time at={created_at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  );
}
