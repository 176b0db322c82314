import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAction } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import type { Turn } from './turns.ts';

const NONE = 'none';

/** Begins a new run from a turn of a durable loop, with changes to what the model knows by then. */
export default function BranchDialog({
  run,
  turns,
  fromTurn,
  onClose,
}: {
  readonly run: Pick<AnswerOf<'getRun'>, 'id' | 'agent_version'>;
  readonly turns: readonly Turn[];
  readonly fromTurn: number;
  readonly onClose: () => void;
}) {
  const { id: workspace_id, slug } = useWorkspace();
  const navigate = useNavigate();
  const replay = useAction('replayRun', { stale: ['listRuns', 'listRunBranches'], silent: true });
  const [message, setMessage] = useState('');
  const [model, setModel] = useState('');
  const [version, setVersion] = useState('');
  const [changed, setChanged] = useState(NONE);
  const [text, setText] = useState('');
  const calls = turns
    .filter(({ number }) => number < fromTurn)
    .flatMap(({ number, tools }) =>
      tools.map(({ name }, index) => ({
        id: `${number}.${index + 1}`,
        label: `Turn ${number}, call ${index + 1}: ${escapeText(name)}`,
      })),
    );
  const start = async () => {
    const [turn, call] = changed.split('.').map(Number);
    const body = {
      from_turn: fromTurn,
      ...(message.trim() !== '' && { message }),
      ...(changed !== NONE && { tool_results: [{ turn: turn!, call: call!, text }] }),
      ...(model.trim() !== '' && { model: model.trim() }),
      ...(version.trim() !== '' && { agent_version: version.trim() }),
    };
    const { run_id } = await replay.mutateAsync({ params: { workspace_id, run_id: run.id }, body });
    await navigate({ to: '/$workspace/runs/$run', params: { workspace: slug, run: run_id }, search: { tab: 'turns' } });
  };
  return (
    <Dialog
      title={`Begin again from turn ${fromTurn}`}
      size="large"
      isOpen
      onClose={onClose}
      actions={
        <Button variant="primary" isPending={replay.isPending} onPress={() => void start().catch(() => {})}>
          Begin
        </Button>
      }
    >
      <p className="text-soft">
        A new run continues the conversation as it was before this turn. Tools of earlier turns do not run again, and
        their cost does not count again.
      </p>
      <TextField
        label="Message"
        description="Optional: what the model should know or do, as a user's message before this turn."
        lines={4}
        value={message}
        onChange={setMessage}
      />
      {calls.length > 0 && (
        <>
          <Select
            label="Result of a tool"
            choices={[{ id: NONE, label: 'As recorded' }, ...calls]}
            value={changed}
            onChange={setChanged}
          />
          {changed !== NONE && <TextField label="New result" lines={6} isMono value={text} onChange={setText} />}
        </>
      )}
      <TextField label="Model" description="Optional: provider/model." value={model} onChange={setModel} />
      <TextField
        label="Version"
        description={`Optional: such as v3, or latest. Otherwise ${run.agent_version}.`}
        value={version}
        onChange={setVersion}
      />
      {replay.error && <ErrorBox error={replay.error} />}
    </Dialog>
  );
}
