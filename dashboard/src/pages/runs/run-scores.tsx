import { Trash2 } from 'lucide-react';
import { useState } from 'react';
import { useAction, useOperation } from '../../api/query.ts';
import { scoreText } from '../../api/score-text.ts';
import { Button, IconButton } from '../../ui/button.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';

interface Params {
  readonly workspace_id: string;
  readonly run_id: string;
}

/** Source of the scores that people give on this page. */
const SOURCE = 'dashboard';

/** What people and programs think of a run. Nothing is shown while it has no score. */
export function RunScores({ params }: { readonly params: Params }) {
  const { data } = useOperation('listRunScores', { params });
  const remove = useAction('deleteRunScore', { stale: ['listRunScores'] });
  if (data === undefined || data.scores.length === 0) return null;
  return (
    <section aria-label="Scores" className="min-w-0 rounded-lg border border-line p-3">
      <h2 className="mb-1 font-medium">Scores</h2>
      <ul className="flex flex-col gap-1">
        {data.scores.map((score) => (
          <li key={`${score.name} ${score.source}`} className="flex min-w-0 flex-wrap items-center gap-x-2">
            <span className="font-medium">
              {score.name}: {scoreText(score)}
            </span>
            <span className="text-soft">
              by {score.source}, <Time at={score.updated_at} />
            </span>
            {score.comment !== null && <span className="min-w-0 break-words">{escapeText(score.comment)}</span>}
            <span className="ml-auto print:hidden">
              <IconButton
                icon={Trash2}
                variant="quiet"
                label={`Delete the score ${score.name} by ${score.source}`}
                onPress={() =>
                  remove.mutate({ params: { ...params, score: score.name }, query: { source: score.source } })
                }
              />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Gives a run a score: a number or a label, with a comment. */
export function ScoreDialog({ params, onClose }: { readonly params: Params; readonly onClose: () => void }) {
  const [name, setName] = useState('helpful');
  const [given, setGiven] = useState('');
  const [comment, setComment] = useState('');
  const create = useAction('scoreRun', { stale: ['listRunScores'], silent: true });
  const number = Number(given);
  const isNumber = given.trim() !== '' && !Number.isNaN(number);
  const save = async () => {
    const score = isNumber ? { value: number } : { label: given };
    const body = { name, source: SOURCE, ...score, ...(comment.trim() !== '' && { comment }) };
    await create.mutateAsync({ params, body });
    onClose();
  };
  return (
    <Dialog
      title="Score this run"
      isOpen
      onClose={onClose}
      actions={
        <Button
          variant="primary"
          isDisabled={name === '' || given.trim() === ''}
          isPending={create.isPending}
          onPress={() => void save().catch(() => {})}
        >
          Save score
        </Button>
      }
    >
      <TextField
        label="Name"
        value={name}
        onChange={setName}
        description="What is scored. Runs with the same name can be compared."
      />
      <TextField
        label="Score"
        value={given}
        onChange={setGiven}
        description={
          given === '' || isNumber ? 'A number, such as 0 or 1, or a label.' : 'This is a label: it is not a number.'
        }
      />
      <TextField label="Comment" lines={3} value={comment} onChange={setComment} maxLength={2000} />
      {create.error && <ErrorBox error={create.error} />}
    </Dialog>
  );
}
