import { Component, lazy, type ReactNode, Suspense, useState } from 'react';
import { Button } from './button.tsx';
import { TextField } from './field.tsx';
import { Loading } from './loading.tsx';

const SchemaForm = lazy(() => import('./schema-form.tsx'));

interface SchemaInputProps {
  /** @default "Input" */
  readonly label?: string;
  readonly description: string;
  /** JSON Schema with fields; without it, only JSON is edited. */
  readonly schema: Readonly<Record<string, unknown>> | null | undefined;
  /** JSON. */
  readonly text: string;
  readonly onChange: (text: string) => void;
  readonly error: string | undefined;
  /** Where in the value `error` is, such as `items.0.count`. */
  readonly errorPath?: string;
  /** Member of the form that holds the value, if the value is not an object. @default - the value is the whole form */
  readonly member?: string;
}

/**
 * A value as JSON. The text is the source of truth: if the schema has fields, a form edits it, so members without a form
 * field are preserved.
 */
export function SchemaInput(props: SchemaInputProps) {
  const { label = 'Input', description, schema, text, onChange, error, errorPath, member } = props;
  const [isText, setText] = useState(false);
  const hasForm = Object.keys((schema?.properties as object | undefined) ?? {}).length > 0;
  const value = formValueOf(text, member);
  const showsForm = hasForm && !isText && value !== undefined;
  const write = (next: Readonly<Record<string, unknown>>) =>
    onChange(JSON.stringify(member === undefined ? next : next[member], null, 2) ?? '');
  return (
    <fieldset className="flex min-w-0 flex-col gap-2">
      <legend className="sr-only">{label}</legend>
      {showsForm ? (
        <FormGuard onUnknown={() => setText(true)}>
          <Suspense fallback={<Loading />}>
            <SchemaForm
              schema={schema!}
              value={value}
              onChange={write}
              problem={error === undefined ? undefined : { path: pathOf(errorPath, member), message: error }}
            />
          </Suspense>
        </FormGuard>
      ) : (
        <TextField
          label={label}
          description={description}
          isMono
          lines={7}
          value={text}
          onChange={onChange}
          error={error === undefined || !errorPath ? error : `${errorPath}: ${error}`}
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

const pathOf = (path: string | undefined, member: string | undefined): string =>
  [member, path].filter(Boolean).join('.');

/** Returns the value of the form; `undefined` if the text is none. */
function formValueOf(text: string, member: string | undefined): Record<string, unknown> | undefined {
  try {
    if (member !== undefined) return text.trim() === '' ? {} : { [member]: JSON.parse(text) };
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Edits the JSON instead where the form cannot draw a schema. */
class FormGuard extends Component<{ readonly onUnknown: () => void; readonly children: ReactNode }> {
  override readonly state = { isUnknown: false };

  static getDerivedStateFromError() {
    return { isUnknown: true };
  }

  override componentDidCatch() {
    this.props.onUnknown();
  }

  override render() {
    return this.state.isUnknown ? null : this.props.children;
  }
}
