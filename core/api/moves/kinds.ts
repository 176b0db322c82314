import type { Item } from '#core/ports/table.ts';
import type { TableName } from '#core/ports/table-rules.ts';

/**
 * What a move to another cell does with an item:
 *
 * - `copy`: the other cell gets the same item.
 * - `reseal`: the same, but the data key in it is opened here and sealed with the vault of the other cell.
 * - `person`: members of the workspace are users in both cells afterwards (`import.ts`).
 * - `blob`: the other cell adds the holders of a blob that moves.
 * - `drop`: the other cell does not get it.
 */
type Fate = 'copy' | 'reseal' | 'person' | 'blob' | 'drop';

/** Items of one layout. The first kind that fits an item is its kind. */
export interface Kind {
  readonly table: TableName;
  /** `<ws>` is the id of a workspace, `*` any part without `#`, and `*` at the end anything. */
  readonly pk: string;
  readonly sk: string;
  /**
   * Where the id of its workspace is: in `<ws>`, or in its attribute `workspace_id`. Items of a `parent` are in a partition that
   * an item of the workspace names ({@link partitionsOf}). `platform`: it belongs to no workspace.
   */
  readonly of: 'key' | 'workspace_id' | 'parent' | 'platform';
  readonly fate: Fate;
  /** Why it is dropped. */
  readonly why?: string;
  /**
   * Whether each item is marked while its workspace does not work, because code reads it without the workspace. Items that
   * background work finds by an index are marked anyway ({@link isWork}).
   */
  readonly isMarked?: true;
}

type Row = readonly [pk: string, sk: string, fate: Fate, more?: Partial<Kind>];

const parent = { of: 'parent' } as const;
const named = { of: 'workspace_id' } as const;
const marked = { isMarked: true } as const;
const dropped = (why: string, more: Partial<Kind> = { of: 'key' }) => ({ ...more, why });
const ofPlatform = (why: string) => dropped(why, { of: 'platform' });

const SIGN_IN = 'People sign in at the address of their cell.';
const LIMITS = 'A limit of some seconds or of a day, which begins anew.';

const MAIN: readonly Row[] = [
  ['WS#<ws>', 'META', 'copy'],
  ['WS#<ws>', 'CONNECTION#*', 'reseal'],
  ['WS#<ws>', '*', 'copy'],
  ['WS#<ws>#INVITES', '*', 'drop', dropped('An invitation names the old cell: invite again.')],
  // Agents: HEAD, versions, keys; builds of `dev`.
  ['WS#<ws>#AGENT#*', '*', 'copy'],
  ['WS#<ws>#DEV#*', '*', 'copy'],
  ['WS#<ws>#RESOURCES', '*', 'copy'],
  ['WS#<ws>#LAYERS', '*', 'copy'],
  ['WS#<ws>#DELETED', '*', 'copy'],
  ['AGENT#*', 'META', 'copy', named],
  ['AGENTKEY#*', 'META', 'copy', named],
  ['BLOB#*', 'META', 'blob', { of: 'platform' }],
  ['GARBAGE#*', 'META', 'drop', ofPlatform('It names a blob of this cell that is to be deleted.')],
  // Schedules and services.
  ['WS#<ws>#SCHEDULES', '*', 'copy', marked],
  ['WS#<ws>#SCHEDULE_LIST', '*', 'copy'],
  ['WS#<ws>#SCHEDULE_LIST#*', '*', 'copy'],
  ['SCHEDULE#*', 'META', 'copy', named],
  ['SCHEDULE#*', 'RUN#*', 'copy', named],
  ['SCHEDULE#*', 'EVENT#*', 'copy', parent],
  ['WS#<ws>#SERVICES', '*', 'copy', marked],
  ['WS#<ws>#SERVED#*', '*', 'copy'],
  ['SERVICE#*', 'META', 'copy', named],
  ['SERVICE#*', 'EVENT#*', 'copy', parent],
  ['SERVICE_LABEL#*', 'META', 'copy', parent],
  // What a workspace stores.
  ['WS#<ws>#STORAGE', '*', 'copy'],
  ['WS#<ws>#STORAGE#*', '*', 'copy'],
  ['WS#<ws>#TASKS', '*', 'copy'],
  ['WS#<ws>#TASKS_DUE', '*', 'copy'],
  ['WS#<ws>#TASKS_DUE#*', '*', 'copy'],
  ['WS#<ws>#TASK_CHANGES', '*', 'copy'],
  ['WS#<ws>#TASK_COUNTS', '*', 'copy'],
  ['WS#<ws>#MESSAGES', '*', 'copy'],
  ['WS#<ws>#MESSAGE_COUNTS', '*', 'copy'],
  ['WS#<ws>#AUDIT', '*', 'copy'],
  ['WS#<ws>#DESTINATION#*', '*', 'copy'],
  ['WS#<ws>#DESTINATIONS', '*', 'copy'],
  ['WS#<ws>#TELEMETRY', '*', 'copy'],
  ['DELIVERY#*', 'META', 'copy', named],
  ['WS#<ws>#CHATLINKS', '*', 'copy'],
  ['CHATLINK#*', 'META', 'copy', named],
  // Money.
  ['WS#<ws>#BUDGETS', '*', 'copy'],
  ['WS#<ws>#EARNINGS', '*', 'copy'],
  ['WS#<ws>#LEDGER', '*', 'copy'],
  // People.
  ['SLUG#*', 'META', 'copy', named],
  ['USER#*', 'META', 'person', parent],
  ['USER#*', 'MEMBER#*', 'person', parent],
  ['USER#*', 'KEY#*', 'person', parent],
  ['USER#*', 'CLIENT#*', 'drop', ofPlatform(SIGN_IN)],
  ['CLIENTCODE#*', 'META', 'drop', ofPlatform(SIGN_IN)],
  ['REFRESHTOKEN#*', 'META', 'drop', ofPlatform(SIGN_IN)],
  ['KEY#*', 'META', 'person', parent],
  ['EMAIL#*', 'USER#*', 'person', parent],
  ['EMAIL#*', 'INVITE#*', 'drop', ofPlatform('An invitation names the old cell: invite again.')],
  ['INVITE#*', 'META', 'drop', dropped('An invitation names the old cell: invite again.', named)],
  ['OIDC#*', 'META', 'drop', ofPlatform('An identity is linked again when its user signs in.')],
  ['PLATFORM', '*', 'drop', ofPlatform('It describes the stage.')],
  ['VAULT#*', '*', 'drop', ofPlatform('The values are read and written through the vaults.')],
];

const RUNS: readonly Row[] = [
  ['WS#<ws>#RUN#*', '*', 'copy'],
  ['WS#<ws>#RUNBODY#*', '*', 'copy'],
  ['WS#<ws>#RUNEVENTS#*', '*', 'copy'],
  ['WS#<ws>#AGUI#*', 'RUN', 'copy'],
  ['WS#<ws>#MCP#*', 'CALL', 'copy'],
  ['WS#<ws>#TREE#*', '*', 'copy'],
  ['WS#<ws>#BRANCHES#*', '*', 'copy'],
  ['WS#<ws>#SCHEDULE#*', '*', 'copy'],
  ['WS#<ws>#WAITING', '*', 'copy'],
  ['WS#<ws>#RUN_END', '*', 'copy'],
  ['WS#<ws>#PUSHES', '*', 'reseal'],
  ['WS#<ws>#TELEMETRY', '*', 'copy'],
  ['OPERATOR#TELEMETRY', '*', 'drop', ofPlatform('The collector is that of the stage.')],
  ['WS#<ws>#JOURNAL#*', 'ORDER', 'reseal'],
  ['WS#<ws>#JOURNAL#*', '*', 'copy'],
  ['WS#<ws>#SESSION_STATE#*', 'STATE', 'reseal'],
  ['WS#<ws>#SESSION_STATE#*', '*', 'copy'],
  ['WS#<ws>#SESSION#*', '*', 'copy'],
  ['WS#<ws>#SESSION_NAME#*', '*', 'copy'],
  ['WS#<ws>#SESSION_BYTES', '*', 'copy'],
  ['WS#<ws>#QUEUE#*', '*', 'copy'],
  ['WS#<ws>#RATE#*', '*', 'copy'],
  ['WS#<ws>#DEBOUNCE#*', '*', 'copy'],
  ['WS#<ws>#EVENTS#*', '*', 'copy'],
  ['WS#<ws>#APPROVALS#*', '*', 'copy'],
  ['WS#<ws>#SCORES', '*', 'copy'],
  ['WS#<ws>#SCORE_SUMS#*', '*', 'copy'],
  ['WS#<ws>#ONLINE', '*', 'copy'],
  ['WS#<ws>#ONLINE_AGENTS', '*', 'copy'],
  ['WS#<ws>#ONLINE_SCORES#*', '*', 'copy'],
  ['WS#<ws>#SHARES', '*', 'copy'],
  ['WS#<ws>#BULK', '*', 'copy'],
  ['WS#<ws>#EVAL', '*', 'copy'],
  ['WS#<ws>#EVAL#*', '*', 'copy'],
  ['LEASE#*', '*', 'copy', named],
  ['APPROVAL_LINK#*', 'META', 'copy', named],
  ['EVENT#*', 'META', 'copy', named],
  ['SHARE#*', 'META', 'copy', named],
  ['CHATVISITOR#*', '*', 'copy', named],
  ['AGENT_RUNS#*', '*', 'copy', parent],
  // Usage.
  ['WS#<ws>#USAGE', '*', 'copy'],
  ['WS#<ws>#AUTHOR_USAGE', '*', 'copy'],
  ['WS#<ws>#AUTHOR_LOG#*', '*', 'copy'],
  ['WS#<ws>#FAILED_LOG#*', '*', 'copy'],
  ['WS#<ws>#CHANNEL#*', '*', 'copy'],
  ['WS#<ws>#SERVICE_USAGE', '*', 'copy'],
  ['WS#<ws>#TENANT#*', '*', 'copy'],
  ['WS#<ws>#TENANTS', '*', 'copy'],
  ['WS#<ws>#TENANT_LOG#*', '*', 'copy'],
  ['FEED#*', '*', 'drop', ofPlatform('Ended runs are summed before the export reads the sums.')],
  ['SUMS#*', '*', 'drop', ofPlatform('A position in the stream of the stage.')],
];

const COUNTERS: readonly Row[] = [
  ['IDEM#<ws>#*', 'ANSWER', 'copy'],
  ['SCHEDULE#*#TRIGGERS', '*', 'copy', parent],
  ['BUDGETS#<ws>', 'UNDERWAY', 'copy'],
  ['BUDGET#*', 'USED', 'copy', parent],
  ['WS#<ws>#LIMITS', '*', 'drop', dropped('Installations and uploads that are under way do not move.')],
  ['WS#<ws>#WATCHERS', '*', 'drop', dropped('Open streams end in the old cell.')],
  ['CALLS#*', '*', 'drop', ofPlatform(LIMITS)],
  ['CHATLINKS#*', 'USE', 'drop', ofPlatform(LIMITS)],
  ['CHATVISITOR#*', 'USE', 'drop', ofPlatform(LIMITS)],
  ['CHATADDRESS#*', '*', 'drop', ofPlatform(LIMITS)],
  ['ADDRESS#*', '*', 'drop', ofPlatform(LIMITS)],
  ['SESSION#*', '*', 'drop', ofPlatform(SIGN_IN)],
  ['KEYSESSIONS#*', '*', 'drop', ofPlatform(SIGN_IN)],
  ['SIGNINCODE#*', '*', 'drop', ofPlatform(SIGN_IN)],
  ['CLIREQUEST#*', '*', 'drop', ofPlatform(SIGN_IN)],
  ['CLITOKEN#*', '*', 'drop', ofPlatform(SIGN_IN)],
  ['CONNECTSTATE#*', '*', 'drop', ofPlatform('A sign-in at a provider ends within ten minutes.')],
  ['OIDC#*', '*', 'drop', ofPlatform(SIGN_IN)],
  ['TRUSTTOKEN#*', 'META', 'drop', ofPlatform('A used token of a job is refused by each cell until it expires.')],
  ['TRUSTREFUSALS#<ws>', '*', 'drop', dropped(LIMITS)],
  ['CLIENTREQUEST#*', '*', 'drop', ofPlatform(SIGN_IN)],
];

const kindsOf = (table: TableName, rows: readonly Row[]): Kind[] =>
  rows.map(([pk, sk, fate, more]) => ({ table, pk, sk, fate, of: 'key', ...more }));

/** Every kind of item that the platform stores. A test compares it with the recorded layouts. */
export const KINDS: readonly Kind[] = [
  ...kindsOf('main', MAIN),
  ...kindsOf('runs', RUNS),
  ...kindsOf('counters', COUNTERS),
];

function patternOf(layout: string): RegExp {
  const parts = layout.split('#');
  const text = parts.map((part, i) => {
    if (part === '<ws>') return '([^#]+)';
    if (part !== '*') return part;
    return i === parts.length - 1 ? '.*' : '[^#]*';
  });
  return new RegExp(`^${text.join('#')}$`, 's');
}

const PATTERNS = KINDS.map((kind) => ({ kind, pk: patternOf(kind.pk), sk: patternOf(kind.sk) }));

/** Index partitions of a workspace or an agent, and the public ones: readers list them. */
const READERS = /^(WS#|AGENT#|PUBLIC$)/;

const isWorkIndex = (partition: string | undefined): boolean => partition !== undefined && !READERS.test(partition);

/** Whether background work of all workspaces finds the item by an index. */
export const isWork = ({ gsi1pk, gsi2pk }: Item): boolean => isWorkIndex(gsi1pk) || isWorkIndex(gsi2pk);

/** Returns the partitions with items of a `parent`, which an item of the workspace names. */
export function partitionsOf({ table, pk: layout }: Kind, item: Item): Partition[] {
  switch (`${table} ${layout}`) {
    case 'main SCHEDULE#*':
      return item.sk === 'META'
        ? [
            ['main', item.pk],
            ['counters', `${item.pk}#TRIGGERS`],
          ]
        : [];
    case 'main SERVICE#*':
      return [['main', item.pk]];
    case 'main WS#<ws>#SERVICES':
      // The name of a service that is gone may be that of another one.
      if (item.ttl !== undefined) return [];
      return [['main', `SERVICE_LABEL#${(item.service as { label?: string }).label}`]];
    case 'main AGENT#*':
      return [['runs', `AGENT_RUNS#${item.pk.slice('AGENT#'.length)}`]];
    case 'runs WS#<ws>#RUN#*': {
      const { budgets = [] } = (item.context ?? {}) as { budgets?: readonly { id: string }[] };
      return budgets.map(({ id }) => ['counters', `BUDGET#${id}`]);
    }
    default:
      return [];
  }
}

export type Partition = readonly [table: TableName, pk: string];

/** Returns the kind of an item, and the id of the workspace in its key; `undefined` for an item of no kind. */
export function kindOf(
  table: TableName,
  { pk, sk }: Pick<Item, 'pk' | 'sk'>,
): { kind: Kind; inKey?: string } | undefined {
  for (const { kind, ...pattern } of PATTERNS) {
    if (kind.table !== table) continue;
    const found = pattern.pk.exec(pk);
    if (found && pattern.sk.test(sk)) return { kind, ...(found[1] !== undefined && { inKey: found[1] }) };
  }
  return undefined;
}
