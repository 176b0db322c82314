import { Validator } from '@cfworker/json-schema';
// Avoids the package's index, which also exports test helpers that compile schemas to code.
import Form from '@rjsf/core/lib/components/Form.js';
import {
  type IconButtonProps,
  type RJSFSchema,
  type RJSFValidationError,
  toErrorSchema,
  type UiSchema,
  type ValidatorType,
} from '@rjsf/utils';
import { ArrowDown, ArrowUp, Copy, Plus, Trash2 } from 'lucide-react';
import { useId, useMemo, useRef } from 'react';

type Value = Record<string, unknown>;

/**
 * Validates a value. This library interprets the schema; others compile it to code, which the page's
 * Content-Security-Policy forbids.
 */
function problemsOf(schema: RJSFSchema, value: unknown): RJSFValidationError[] {
  const { errors } = new Validator(schema as never, '2020-12', false).validate(value ?? {});
  // The error of an object only repeats those of its members.
  const own = errors.filter(({ keyword }) => !['properties', '$ref', 'items', 'allOf'].includes(keyword));
  return own.map(({ instanceLocation, keyword, error }) => {
    const property = instanceLocation.slice(1).replaceAll('/', '.');
    return { name: keyword, property, message: error, stack: `${property || 'input'}: ${error}` };
  });
}

const VALIDATOR: ValidatorType<Value> = {
  validateFormData(value, schema) {
    try {
      const errors = problemsOf(schema, value);
      return { errors, errorSchema: toErrorSchema(errors) };
    } catch {
      // The library cannot read this schema; the platform validates the input anyway.
      return { errors: [], errorSchema: {} };
    }
  },
  isValid(schema, value, root) {
    try {
      const { $defs, definitions } = root;
      return new Validator({ $defs, definitions, ...schema } as never, '2020-12').validate(value).valid;
    } catch {
      return false;
    }
  },
  rawValidation(schema, value) {
    return { errors: problemsOf(schema, value) as never };
  },
};

function FormButton({ icon, label, onClick, disabled }: IconButtonProps & { readonly label: string }) {
  return (
    <button
      type="button"
      onClick={onClick}
      disabled={disabled}
      aria-label={label}
      title={label}
      className="form-button"
    >
      {icon}
    </button>
  );
}

const TEMPLATES = {
  ButtonTemplates: {
    AddButton: (props: IconButtonProps) => <FormButton {...props} label="Add" icon={<Plus size={14} aria-hidden />} />,
    CopyButton: (props: IconButtonProps) => (
      <FormButton {...props} label="Copy" icon={<Copy size={14} aria-hidden />} />
    ),
    MoveDownButton: (props: IconButtonProps) => (
      <FormButton {...props} label="Move down" icon={<ArrowDown size={14} aria-hidden />} />
    ),
    MoveUpButton: (props: IconButtonProps) => (
      <FormButton {...props} label="Move up" icon={<ArrowUp size={14} aria-hidden />} />
    ),
    RemoveButton: (props: IconButtonProps) => (
      <FormButton {...props} label="Remove" icon={<Trash2 size={14} aria-hidden />} />
    ),
  },
};

/** A limit from which a text is expected to have several lines. */
const LONG_TEXT = 200;
const LINES = { 'ui:widget': 'textarea', 'ui:options': { rows: 5 } } as const;

/**
 * Returns the settings of a form whose texts of several lines have large fields: texts that contain line breaks or may be
 * long. `known` keeps the paths of these fields, so that a field never shrinks while its text is edited.
 */
function widgetsOf(schema: RJSFSchema, value: unknown, known: Set<string>, path = ''): UiSchema {
  const samples = [value, schema.default, ...(Array.isArray(schema.examples) ? schema.examples : [])];
  if (schema.type === 'string' && schema.enum === undefined && schema.format === undefined) {
    const hasLines = samples.some((sample) => typeof sample === 'string' && sample.includes('\n'));
    if (hasLines || (schema.maxLength ?? 0) > LONG_TEXT) known.add(path);
    return known.has(path) ? LINES : {};
  }
  const members = Object.entries(schema.properties ?? {}).map(([name, member]) => {
    const own = (value as Value | null | undefined)?.[name];
    return [name, typeof member === 'object' ? widgetsOf(member, own, known, `${path}/${name}`) : {}];
  });
  return Object.fromEntries(members);
}

/**
 * A form for a JSON Schema. Preserves members that the schema does not define. Load it with `lazy`.
 *
 * @param onChange receives the complete value
 * @param problem of the platform with the value, shown at the field with this path
 */
export default function SchemaForm({
  schema,
  value,
  onChange,
  problem,
}: {
  readonly schema: Readonly<Record<string, unknown>>;
  readonly value: Value;
  readonly onChange: (value: Value) => void;
  readonly problem?: { readonly path: string; readonly message: string };
}) {
  const known = useRef(new Set<string>());
  const { path, message } = problem ?? {};
  const extraErrors = useMemo(
    () =>
      path === undefined || message === undefined
        ? undefined
        : toErrorSchema<Value>([{ property: path === '' ? '.' : `.${path}`, message, stack: message }]),
    [path, message],
  );
  return (
    <Form
      className="schema-form"
      // A page may have several forms.
      idPrefix={useId()}
      extraErrors={extraErrors}
      schema={schema as RJSFSchema}
      formData={value}
      validator={VALIDATOR}
      templates={TEMPLATES}
      uiSchema={{
        ...widgetsOf(schema as RJSFSchema, value, known.current),
        'ui:submitButtonOptions': { norender: true },
      }}
      experimental_defaultFormStateBehavior={{ emptyObjectFields: 'skipDefaults' }}
      showErrorList={false}
      liveValidate
      noHtml5Validate
      tagName="div"
      onChange={({ formData }) => onChange(formData ?? {})}
    />
  );
}
