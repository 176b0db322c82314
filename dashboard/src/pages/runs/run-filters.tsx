import { Search, SlidersHorizontal } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { RUN_STATUSES, type RunStatus, TRIGGERS } from '#core/base/run-kinds.ts';
import { useAgents } from '../../api/agents.ts';
import type { ArgumentsOf } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import type { LiveEvent } from '../../live/watch.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Checkbox, Select, TextField, type TextFieldProps } from '../../ui/field.tsx';
import { SavedFilters } from './saved-filters.tsx';

/** Values accepted by `run_id_prefix`. */
const ID_PREFIX = /^(req_)?(-?[0-9a-f]){7,32}$/i;
const VERSION = /^[\w.-]{1,64}$/;
const SINCE: Readonly<Record<string, readonly [label: string, ms: number]>> = {
  '1h': ['Last hour', 3_600_000],
  '24h': ['Last 24 hours', 86_400_000],
  '7d': ['Last 7 days', 604_800_000],
};
/** Debounce delay of text filters. */
const TYPED_MS = 350;

/** Search parameters of the list; all values are text. */
export interface Filters {
  /** Prefix of an id; any other text is searched in the loaded runs. */
  readonly q?: string;
  readonly status?: RunStatus;
  readonly agent?: string;
  readonly version?: string;
  readonly source?: string;
  readonly schedule?: string;
  readonly tenant?: string;
  /** A key of {@link SINCE}; otherwise `from` and `to` apply, in ISO 8601. */
  readonly since?: string;
  readonly from?: string;
  readonly to?: string;
  /** Whether to hide runs that were called by other runs. */
  readonly top?: 'on';
  /** Whether to show only runs that failed in spite of their retries. */
  readonly exhausted?: 'on';
}
export const FILTER_NAMES = [
  'q',
  'status',
  'agent',
  'version',
  'source',
  'schedule',
  'tenant',
  'since',
  'from',
  'to',
  'top',
  'exhausted',
] as const;
/** Filters that are hidden until the user expands them or one is set. */
const FURTHER = ['version', 'schedule', 'tenant', 'from', 'to', 'top', 'exhausted'] as const;

type Query = NonNullable<ArgumentsOf<'listRuns'>['query']>;

/**
 * Converts the filters to an API query. Leaves out invalid values, which are reported beside their field. `now` is the
 * reference of relative times.
 */
export function queryOf(filters: Filters, now: number): Query {
  const since = SINCE[filters.since ?? '']?.[1];
  return {
    status: filters.status,
    agent_name: filters.agent,
    version: VERSION.test(filters.version ?? '') ? filters.version : undefined,
    trigger_source: filters.source,
    schedule_id: filters.schedule,
    tenant_id: filters.tenant,
    from: since === undefined ? filters.from : new Date(now - since).toISOString(),
    to: since === undefined ? filters.to : undefined,
    top_level: filters.top === 'on' ? 'true' : undefined,
    exhausted: filters.exhausted === 'on' ? 'true' : undefined,
    run_id_prefix: ID_PREFIX.test(filters.q ?? '') ? filters.q : undefined,
  };
}

/** Whether the search text is no id prefix. */
export const isTextSearch = ({ q }: Filters): boolean => q !== undefined && !ID_PREFIX.test(q);

/** Whether the agent, source or error of a run contains a text. */
export function containsText(
  run: { readonly agent_name?: unknown; readonly trigger_source?: unknown; readonly error_message?: unknown },
  text: string,
): boolean {
  const wanted = text.toLowerCase();
  return [run.agent_name, run.trigger_source, run.error_message].some(
    (value) => typeof value === 'string' && value.toLowerCase().includes(wanted),
  );
}

/** Whether a run from an event belongs to the list. */
export function matches(filters: Filters, told: LiveEvent['data']): boolean {
  const { q, status, agent, version, source, schedule, tenant, top, from, to } = filters;
  const is = (wanted: string | undefined, value: unknown) => wanted === undefined || value === wanted;
  const at = Date.parse(String(told.started_at));
  return (
    is(status, told.status) &&
    is(agent, told.agent_name) &&
    is(version?.replace(/^(?=\d+$)/, 'v'), told.agent_version) &&
    is(source, told.trigger_source) &&
    is(schedule, told.schedule_id) &&
    is(tenant, told.tenant_id) &&
    (top === undefined || told.parent_run_id === null) &&
    // Events do not tell whether a run is tried again.
    filters.exhausted === undefined &&
    (from === undefined || filters.since !== undefined || at >= Date.parse(from)) &&
    (to === undefined || filters.since !== undefined || at < Date.parse(to)) &&
    (q === undefined ||
      (isTextSearch(filters)
        ? containsText(told, q)
        : String(told.run_id).startsWith(q.replace(/^req_/i, '').toLowerCase())))
  );
}

interface FiltersProps {
  readonly filters: Filters;
  readonly onChange: (change: Filters) => void;
}

/** Search box and filters; on small screens, the filters are in a dialog. */
export function RunFilters({ filters, onChange }: FiltersProps) {
  const [isSheetOpen, setSheetOpen] = useState(false);
  const agents = useAgents({ staleTime: 60_000 });
  const set = FILTER_NAMES.filter((name) => name !== 'q' && filters[name] !== undefined);
  const clear = () => onChange(Object.fromEntries(FILTER_NAMES.map((name) => [name, undefined])) as Filters);
  const search = (q: string | undefined) =>
    (agents.rows ?? []).some(({ name }) => name === q) ? onChange({ q: undefined, agent: q }) : onChange({ q });
  return (
    <div className="flex flex-col gap-3" data-filter>
      <div className="flex flex-wrap items-end gap-2">
        <div className="min-w-0 grow sm:max-w-md">
          <Typed
            label="Search runs"
            isLabelHidden
            icon={<Search size={14} aria-hidden />}
            placeholder="Run ID, agent or text"
            value={filters.q}
            onChange={search}
          />
        </div>
        <div className="sm:hidden">
          <Button icon={SlidersHorizontal} onPress={() => setSheetOpen(true)}>
            {set.length === 0 ? 'Filters' : `Filters (${set.length})`}
          </Button>
        </div>
        <SavedFilters
          current={Object.fromEntries(FILTER_NAMES.flatMap((name) => (filters[name] ? [[name, filters[name]]] : [])))}
          onApply={(search) =>
            onChange(Object.fromEntries(FILTER_NAMES.map((name) => [name, search[name]])) as Filters)
          }
        />
        {(set.length > 0 || filters.q !== undefined) && (
          <Button variant="quiet" onPress={clear}>
            Clear filters
          </Button>
        )}
      </div>
      <div className="max-sm:hidden">
        <FilterFields filters={filters} onChange={onChange} />
      </div>
      <Dialog
        title="Filters"
        isOpen={isSheetOpen}
        onClose={() => setSheetOpen(false)}
        actions={
          <Button variant="primary" onPress={() => setSheetOpen(false)}>
            Show runs
          </Button>
        }
      >
        <FilterFields filters={filters} onChange={onChange} />
      </Dialog>
    </div>
  );
}

function FilterFields({ filters, onChange }: FiltersProps) {
  const [isOpen, setOpen] = useState(FURTHER.some((name) => filters[name] !== undefined));
  const isBetween = filters.from !== undefined || filters.to !== undefined;
  return (
    <div className="flex flex-col gap-3">
      <div className="grid grid-cols-2 items-start gap-3 lg:grid-cols-4">
        <Typed label="Agent" placeholder="Exact name" value={filters.agent} onChange={(agent) => onChange({ agent })} />
        <Select
          label="Status"
          value={filters.status ?? ''}
          onChange={(status) => onChange({ status: (status || undefined) as Filters['status'] })}
          choices={choicesOf(RUN_STATUSES)}
        />
        <Select
          label="Source"
          value={filters.source ?? ''}
          onChange={(source) => onChange({ source: source || undefined })}
          choices={choicesOf(TRIGGERS)}
        />
        <Select
          label="Started"
          value={filters.since ?? (isBetween ? 'between' : '')}
          onChange={(since) => {
            setOpen(isOpen || since === 'between');
            const isKept = since === 'between';
            onChange({
              since: since in SINCE ? since : undefined,
              ...(!isKept && { from: undefined, to: undefined }),
              ...(isKept && !isBetween && { from: new Date(Date.now() - 86_400_000).toISOString() }),
            });
          }}
          choices={[
            { id: '', label: 'Any time' },
            ...Object.entries(SINCE).map(([id, [label]]) => ({ id, label })),
            { id: 'between', label: 'Between…' },
          ]}
        />
      </div>
      {isOpen && <FurtherFilters filters={filters} onChange={onChange} />}
      <div>
        <Button variant="quiet" aria-expanded={isOpen} onPress={() => setOpen(!isOpen)}>
          {isOpen ? 'Fewer filters' : 'More filters'}
        </Button>
      </div>
    </div>
  );
}

function FurtherFilters({ filters, onChange }: FiltersProps) {
  const { id: workspace_id } = useWorkspace();
  const { data } = useOperation(
    'listSchedules',
    { params: { workspace_id }, query: { limit: 100 } },
    { staleTime: 60_000 },
  );
  const schedules = (data?.schedules ?? []).map(({ id, agent_name, cron_expression }) => ({
    id,
    label: `${agent_name} ${cron_expression ?? 'webhook'}`,
  }));
  const isKnown = filters.schedule === undefined || schedules.some(({ id }) => id === filters.schedule);
  const between = filters.since === undefined;
  return (
    <div className="grid grid-cols-2 items-start gap-3 lg:grid-cols-5">
      <Typed
        label="Version"
        placeholder="v3"
        value={filters.version}
        onChange={(version) => onChange({ version })}
        error={filters.version === undefined || VERSION.test(filters.version) ? undefined : 'A version such as v3'}
      />
      <Select
        label="Schedule"
        value={filters.schedule ?? ''}
        onChange={(schedule) => onChange({ schedule: schedule || undefined })}
        choices={[
          { id: '', label: 'All' },
          ...schedules,
          ...(isKnown ? [] : [{ id: filters.schedule!, label: filters.schedule!.slice(0, 8) }]),
        ]}
      />
      <Typed
        label="Tenant"
        placeholder="Exact tenant name"
        value={filters.tenant}
        onChange={(tenant) => onChange({ tenant })}
      />
      <TextField
        label="Started from"
        type="datetime-local"
        isDisabled={!between}
        value={localOf(filters.from)}
        onChange={(from) => onChange({ from: isoOf(from) })}
      />
      <TextField
        label="Started before"
        type="datetime-local"
        isDisabled={!between}
        value={localOf(filters.to)}
        onChange={(to) => onChange({ to: isoOf(to) })}
        error={isBackwards(filters) ? 'Must be later than the start.' : undefined}
      />
      <Checkbox value={filters.top === 'on'} onChange={(on) => onChange({ top: on ? 'on' : undefined })}>
        Hide sub-calls
      </Checkbox>
      <Checkbox value={filters.exhausted === 'on'} onChange={(on) => onChange({ exhausted: on ? 'on' : undefined })}>
        Retries used up
      </Checkbox>
    </div>
  );
}

const isBackwards = ({ from, to }: Filters): boolean => from !== undefined && to !== undefined && from >= to;
const choicesOf = (ids: readonly string[]) => [{ id: '', label: 'All' }, ...ids.map((id) => ({ id, label: id }))];

/** Formats a timestamp for a datetime-local field; empty if undefined. */
function localOf(iso: string | undefined): string {
  const at = Date.parse(iso ?? '');
  if (Number.isNaN(at)) return '';
  return new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
const isoOf = (local: string): string | undefined => (local === '' ? undefined : new Date(local).toISOString());

/** A text field that applies its value after a pause in typing. */
function Typed({
  value = '',
  onChange,
  ...rest
}: Omit<TextFieldProps, 'value' | 'onChange'> & {
  readonly value: string | undefined;
  readonly onChange: (value: string | undefined) => void;
}) {
  const [typed, setTyped] = useState<string>();
  const latest = useRef(onChange);
  latest.current = onChange;
  // Live updates rerender often, so only a changed text restarts the delay.
  useEffect(() => {
    if (typed === undefined) return;
    const timer = setTimeout(() => {
      latest.current(typed.trim() || undefined);
      setTyped(undefined);
    }, TYPED_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return <TextField {...rest} value={typed ?? value} onChange={setTyped} />;
}
