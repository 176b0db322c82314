import { useState } from 'react';
import { textOfInput } from '../../chat/message-text.ts';
import type { ChatMessage, Draft } from '../../chat/transport.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { objectOf } from '../../ui/json-object.ts';
import { SchemaInput } from '../../ui/schema-input.tsx';

/** Changes a message and asks it again in a chat of its own, so that the first answer stays where it is. */
export function EditDialog({
  message,
  schema,
  onSend,
  onClose,
}: {
  readonly message: ChatMessage;
  readonly schema: Readonly<Record<string, unknown>> | null | undefined;
  readonly onSend: (draft: Draft) => Promise<unknown>;
  readonly onClose: () => void;
}) {
  const text = textOfInput(message.input);
  const [edited, setEdited] = useState(text ?? JSON.stringify(message.input, null, 2));
  const [state, setState] = useState<{ readonly isPending?: boolean; readonly error?: unknown }>({});
  const [problem, setProblem] = useState<string>();
  const ask = async () => {
    const draft = text === undefined ? inputOf(edited) : withText(message.input, edited);
    if (typeof draft === 'string') return setProblem(draft);
    setState({ isPending: true });
    try {
      await onSend(draft);
      onClose();
    } catch (error) {
      setState({ error });
    }
  };
  return (
    <Dialog
      title="Edit and ask again"
      isOpen
      onClose={onClose}
      size={text === undefined ? 'large' : 'small'}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button variant="primary" onPress={ask} isPending={state.isPending} isDisabled={edited.trim() === ''}>
            Ask again
          </Button>
        </>
      }
    >
      <p className="text-soft">
        {message.number === 1
          ? 'The edited message begins a new chat. This one stays as it is.'
          : 'A new chat goes on from here with the messages before this one. This chat stays as it is.'}
      </p>
      {text === undefined ? (
        <SchemaInput description="A JSON object" schema={schema} text={edited} onChange={setEdited} error={problem} />
      ) : (
        <TextField label="Message" lines={6} value={edited} onChange={setEdited} autoFocus />
      )}
      {state.error !== undefined && <ErrorBox error={state.error} />}
    </Dialog>
  );
}

function inputOf(text: string): Draft | string {
  const { value, problem } = objectOf(text);
  return value === undefined ? problem! : { input: value };
}

const withText = (input: unknown, text: string): Draft =>
  typeof input === 'string' ? { text } : { input: { [Object.keys(input as object)[0]!]: text } };
