import { useQueryClient } from '@tanstack/react-query';
import { Ban, Check, CheckCheck, Pencil, Send, Undo2 } from 'lucide-react';
import { useState } from 'react';
import type { ArgumentsOf } from '../api/client.ts';
import { keyOf, useAction } from '../api/query.ts';
import { useWorkspace } from '../api/session.ts';
import { ApiError } from '../api-error.ts';
import { Button } from '../ui/button.tsx';
import { ErrorBox } from '../ui/error-box.tsx';
import { TextField } from '../ui/field.tsx';
import { sampleOf } from '../ui/sample-value.ts';
import { SchemaInput } from '../ui/schema-input.tsx';
import { escapeText } from '../ui/text/escape-text.ts';
import { changesOf, type FieldProblem, fieldProblemOf, formOf, isText, MORE_COST } from './approval.ts';
import { Arguments, Changes } from './approval-parts.tsx';
import type { Approval } from './waiting.ts';

type Decision = ArgumentsOf<'decideApproval'>['body'];

const STALE = ['listApprovals', 'getRun', 'getRunWaterfall', 'listRuns'] as const;

/** The decision about a call or a question that waits. */
export function DecideForm({
  approval,
  onDecided,
}: {
  readonly approval: Approval;
  /** @param isOwn false if it turned out that something else was decided, or that it is too late */
  readonly onDecided: (isOwn: boolean) => void;
}) {
  const { id: workspace_id } = useWorkspace();
  const client = useQueryClient();
  const { mutate, isPending, error, reset } = useAction('decideApproval', { stale: STALE, silent: true });
  const params = { workspace_id, approval_id: approval.id };
  const decide = (body: Decision) =>
    mutate(
      { params, body },
      {
        onSuccess: (decided) => {
          client.setQueryData(keyOf('getApproval', { params }, workspace_id), decided);
          onDecided(true);
        },
        onError: (problem) => {
          if (!(problem instanceof ApiError && problem.code === 'CONFLICT')) return;
          onDecided(false);
          for (const name of ['getApproval', ...STALE] as const) {
            void client.invalidateQueries({ queryKey: keyOf(name) });
          }
        },
      },
    );
  const problem = error === null ? undefined : fieldProblemOf(error.message);
  const Form = approval.kind === 'answer' ? AnswerForm : ApproveForm;
  return (
    <div className="flex min-w-0 flex-col gap-3">
      <Form approval={approval} decide={decide} isPending={isPending} problem={problem} onEdit={reset} />
      {error && !problem && <ErrorBox error={error} />}
    </div>
  );
}

interface FormProps {
  readonly approval: Approval;
  readonly decide: (decision: Decision) => void;
  readonly isPending: boolean;
  readonly problem: FieldProblem | undefined;
  /** Called when a value changes: the problem was with the one before. */
  readonly onEdit: () => void;
}

const objectOf = (text: string): Record<string, unknown> | undefined => {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
};

/** Approves a call, possibly with other arguments, or refuses it. */
function ApproveForm({ approval, decide, isPending, problem, onEdit }: FormProps) {
  const [mode, setMode] = useState<'edit' | 'refuse'>();
  const [text, setText] = useState(() => JSON.stringify(approval.arguments, null, 2));
  const edit = (next: string) => {
    setText(next);
    onEdit();
  };
  const [reason, setReason] = useState('');
  const [isBack, setBack] = useState(false);
  const value = objectOf(text);
  const isChanged = mode === 'edit' && value !== undefined && changesOf(approval.arguments, value).length > 0;
  const approve = (scope: 'this' | 'run') =>
    decide({ decision: 'approve', for: scope, ...(isChanged && { arguments: value }) });
  const form = formOf(approval.schema);
  const asked = <Arguments value={approval.arguments} name={`arguments-${approval.id}`} />;
  if (mode === 'refuse') {
    return (
      <>
        {asked}
        <TextField
          label="Reason"
          description="Optional. The agent is told."
          lines={2}
          autoFocus
          maxLength={4000}
          value={reason}
          onChange={setReason}
          error={problem?.message}
        />
        <div key="refuse" className="flex flex-wrap gap-2">
          <Button
            variant="danger"
            icon={Ban}
            isPending={isPending}
            onPress={() => decide({ decision: 'deny', for: 'this', ...(reason.trim() !== '' && { reason }) })}
          >
            Refuse
          </Button>
          <Button
            variant="quiet"
            onPress={() => {
              setMode(undefined);
              setBack(true);
            }}
          >
            Back
          </Button>
        </div>
      </>
    );
  }
  const invalid = mode === 'edit' && value === undefined ? 'It must be a JSON object.' : undefined;
  return (
    <>
      {mode === undefined && asked}
      {mode === 'edit' && (
        <>
          <SchemaInput
            label="Arguments"
            description="A JSON object. The agent is told of the change."
            schema={form?.isWrapped === false ? form.schema : undefined}
            text={text}
            onChange={edit}
            error={invalid ?? problem?.message}
            errorPath={problem?.path}
          />
          {problem && <FieldAlert problem={problem} />}
          {value !== undefined && <Changes before={approval.arguments} after={value} />}
        </>
      )}
      <div className="flex flex-wrap gap-2">
        <Button
          variant="primary"
          icon={Check}
          isPending={isPending}
          isDisabled={invalid !== undefined}
          onPress={() => approve('this')}
        >
          {isChanged ? 'Approve with changes' : 'Approve'}
        </Button>
        <Button icon={CheckCheck} isDisabled={isPending || invalid !== undefined} onPress={() => approve('run')}>
          {approval.tool === MORE_COST ? 'Approve without a limit' : 'Approve for the rest of the run'}
        </Button>
        {mode === 'edit' ? (
          <Button
            icon={Undo2}
            isDisabled={isPending}
            onPress={() => {
              setMode(undefined);
              setText(JSON.stringify(approval.arguments, null, 2));
            }}
          >
            Discard changes
          </Button>
        ) : (
          <Button icon={Pencil} isDisabled={isPending} onPress={() => setMode('edit')}>
            Change arguments
          </Button>
        )}
        <Button variant="danger" icon={Ban} isDisabled={isPending} autoFocus={isBack} onPress={() => setMode('refuse')}>
          Refuse…
        </Button>
      </div>
    </>
  );
}

/** Answers a question: by one of its options, as a text, or as its schema says. */
function AnswerForm({ approval, decide, isPending, problem, onEdit }: FormProps) {
  const { options, schema } = approval;
  const form = formOf(schema);
  const isPlain = isText(approval);
  const [text, setText] = useState(() => (isPlain ? '' : JSON.stringify(sampleOf(schema), null, 2)));
  const edit = (next: string) => {
    setText(next);
    onEdit();
  };
  const answer = (value: unknown) => decide({ decision: 'answer', for: 'this', answer: value });
  if (options !== null) {
    return (
      <fieldset className="flex min-w-0 flex-wrap gap-2">
        <legend className="sr-only">Answers</legend>
        {options.map((option) => (
          <Button key={option} isDisabled={isPending} onPress={() => answer(option)}>
            {escapeText(option)}
          </Button>
        ))}
      </fieldset>
    );
  }
  let value: unknown = text;
  let isValid = text.trim() !== '';
  if (!isPlain) {
    try {
      value = JSON.parse(text);
    } catch {
      isValid = false;
    }
  }
  return (
    <>
      {isPlain ? (
        <TextField label="Answer" lines={3} value={text} onChange={edit} error={problem?.message} />
      ) : (
        <>
          <SchemaInput
            label="Answer"
            description="JSON, as the schema of the question says."
            schema={form?.schema}
            member={form?.isWrapped ? 'answer' : undefined}
            text={text}
            onChange={edit}
            error={problem?.message}
            errorPath={problem?.path}
          />
          {problem && <FieldAlert problem={problem} />}
        </>
      )}
      <div>
        <Button variant="primary" icon={Send} isPending={isPending} isDisabled={!isValid} onPress={() => answer(value)}>
          Answer
        </Button>
      </div>
    </>
  );
}

/** Also says a problem at a field to those who do not see it, and where the form has no such field. */
const FieldAlert = ({ problem: { path, message } }: { readonly problem: FieldProblem }) => (
  <p role="alert" className="text-bad">
    {path === '' ? message : `${path}: ${message}`}
  </p>
);
