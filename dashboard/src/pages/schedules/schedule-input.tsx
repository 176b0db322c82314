import { lazy, Suspense, useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/field.tsx';
import { objectOf } from '../../ui/json-object.ts';
import { Loading } from '../../ui/loading.tsx';

const SchemaForm = lazy(() => import('../../ui/schema-form.tsx'));

/**
 * Input of a schedule's runs. The JSON text is the source of truth: if the agent has a schema, a form edits it, so
 * members without a form field are preserved.
 */
export function ScheduleInput({
  schema,
  text,
  onChange,
  error,
}: {
  /** Input schema of the agent, if it has fields. */
  readonly schema: Readonly<Record<string, unknown>> | null | undefined;
  readonly text: string;
  readonly onChange: (text: string) => void;
  readonly error: string | undefined;
}) {
  const [isText, setText] = useState(false);
  const hasForm = Object.keys((schema?.properties as object | undefined) ?? {}).length > 0;
  const { value } = objectOf(text);
  const showsForm = hasForm && !isText && value !== undefined;
  return (
    <fieldset className="flex min-w-0 flex-col gap-2">
      <legend className="sr-only">Input</legend>
      {showsForm ? (
        <Suspense fallback={<Loading />}>
          <SchemaForm schema={schema!} value={value} onChange={(next) => onChange(JSON.stringify(next, null, 2))} />
        </Suspense>
      ) : (
        <TextField
          label="Input"
          description="A JSON object. A webhook's body is added to it."
          isMono
          lines={7}
          value={text}
          onChange={onChange}
          error={error}
        />
      )}
      {hasForm && (
        <div>
          <Button variant="quiet" isDisabled={!showsForm && value === undefined} onPress={() => setText(showsForm)}>
            {showsForm ? 'Edit as JSON' : 'Edit as form'}
          </Button>
        </div>
      )}
    </fieldset>
  );
}
