import { useQueryClient } from '@tanstack/react-query';
import { Link, useLocation, useNavigate, useParams } from '@tanstack/react-router';
import {
  Check,
  ChevronsUpDown,
  House,
  LogOut,
  Menu as MenuIcon,
  Monitor,
  Moon,
  Search,
  Star,
  Sun,
  X,
} from 'lucide-react';
import { useEffect, useState } from 'react';
import { Button as AriaButton } from 'react-aria-components/Button';
import { call } from '../api/client.ts';
import { useFavorites } from '../api/favorites.ts';
import { useMaybeWorkspace, useWho, useWorkspace, useWorkspaces } from '../api/session.ts';
import { useWaitingCount } from '../approvals/waiting.ts';
import { APPROVALS, OTHER_PLACES, type Place, WORKSPACE_PLACES } from '../navigation.ts';
import { IconButton } from '../ui/button.tsx';
import { classes } from '../ui/classes.ts';
import { Menu } from '../ui/menu.tsx';
import { useIsAfterPage } from './after-page.ts';
import { NotificationBell } from './notification-bell.tsx';
import { openPalette } from './palette.tsx';
import { type Theme, useTheme } from './theme.ts';

/** Workspace switcher, navigation, search, theme and sign-out: on the left, or at the top on small screens. */
export function SideBar() {
  const [isOpen, setOpen] = useState(false);
  const { pathname } = useLocation();
  const workspace = useMaybeWorkspace();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the menu closes when a link in it was followed.
  useEffect(() => setOpen(false), [pathname]);
  return (
    <header className="flex shrink-0 flex-col border-line bg-panel max-md:sticky max-md:top-0 max-md:z-20 max-md:border-b md:sticky md:top-0 md:h-dvh md:w-56 md:border-r">
      <div className="flex items-center gap-1 p-2">
        <div className="min-w-0 grow">
          <WorkspaceSwitch />
        </div>
        {workspace && <NotificationBell key={workspace.id} />}
        <div className="md:hidden">
          <IconButton icon={Search} label="Search" onPress={openPalette} />
          <IconButton
            icon={isOpen ? X : MenuIcon}
            label={isOpen ? 'Close menu' : 'Open menu'}
            aria-expanded={isOpen}
            onPress={() => setOpen(!isOpen)}
          />
        </div>
      </div>
      <div className={classes('flex min-h-0 grow flex-col', !isOpen && 'max-md:hidden')}>
        <AriaButton
          onPress={openPalette}
          className="mx-2 mb-2 flex h-8 items-center gap-2 rounded-md border border-line bg-ground px-2 text-soft max-md:hidden"
        >
          <Search size={14} aria-hidden />
          <span className="grow text-left">Search or go to</span>
          <kbd className="font-sans text-xs">{/Mac/.test(navigator.userAgent) ? '⌘' : 'Ctrl'} K</kbd>
        </AriaButton>
        <nav aria-label="Pages" className="flex min-h-0 grow flex-col gap-px overflow-y-auto px-2 pb-2">
          <Places />
        </nav>
        <UserMenu />
      </div>
    </header>
  );
}

function Places() {
  const { workspace } = useParams({ strict: false });
  const current = useMaybeWorkspace();
  return (
    <>
      {workspace === undefined ? (
        <PlaceLink place={{ to: '/', label: 'Workspaces', icon: House }} />
      ) : (
        WORKSPACE_PLACES.map((place) => <PlaceLink key={place.to} place={place} workspace={workspace} />)
      )}
      {current && <Favorites key={current.id} />}
      {OTHER_PLACES.length > 0 && <hr className="my-2 border-line" />}
      {OTHER_PLACES.map((place) => (
        <PlaceLink key={place.to} place={place} />
      ))}
    </>
  );
}

/** Links to the user's favorite agents, below the pages of the workspace. */
function Favorites() {
  const { slug } = useWorkspace();
  const [names] = useFavorites();
  if (names.length === 0) return null;
  return (
    <section aria-label="Favorites" className="mt-2 flex shrink-0 flex-col gap-px">
      <h2 className="px-2 text-xs text-soft">Favorites</h2>
      {names.map((name) => (
        <Link
          key={name}
          to="/$workspace/agents/$name"
          params={{ workspace: slug, name }}
          activeOptions={{ includeSearch: false }}
          className={PLACE_CLASS}
        >
          <Star size={16} aria-hidden className="shrink-0" />
          <span className="truncate">{name}</span>
        </Link>
      ))}
    </section>
  );
}

const PLACE_CLASS =
  'flex h-8 shrink-0 items-center gap-2.5 rounded-md px-2 font-medium text-soft outline-offset-[-2px] hover:bg-hover hover:text-text aria-[current=page]:bg-selected aria-[current=page]:text-text';

function PlaceLink({
  place: { to, label, icon: Icon },
  workspace,
}: {
  readonly place: Place;
  readonly workspace?: string;
}) {
  return (
    <Link
      // biome-ignore lint/suspicious/noExplicitAny: addresses of all pages.
      {...({ to, params: { workspace } } as any)}
      activeOptions={{ exact: to === '/$workspace' || to === '/', includeSearch: false }}
      className={PLACE_CLASS}
    >
      <Icon size={16} aria-hidden className="shrink-0" />
      {label}
      {to === APPROVALS && <WaitingBadge />}
    </Link>
  );
}

function WaitingBadge() {
  const workspace = useMaybeWorkspace();
  return workspace && <WaitingCount id={workspace.id} />;
}

/** How many calls and questions wait for people. */
function WaitingCount({ id }: { readonly id: string }) {
  const waiting = useWaitingCount(id, useIsAfterPage());
  if (waiting === undefined) return null;
  return (
    <span className="ml-auto rounded-full bg-warn-ground px-1.5 text-xs font-semibold text-warn">
      {waiting}
      <span className="sr-only"> waiting</span>
    </span>
  );
}

/** Number of workspaces up to which the list needs no search. */
const MAX_UNSEARCHED = 5;

function WorkspaceSwitch() {
  const workspaces = useWorkspaces();
  const { workspace: slug } = useParams({ strict: false });
  const navigate = useNavigate();
  const current = workspaces.find((each) => each.slug === slug);
  return (
    <Menu
      label="Workspaces"
      searchLabel={workspaces.length > MAX_UNSEARCHED ? 'Find a workspace' : undefined}
      entries={[
        ...workspaces.map((each) => ({
          id: each.id,
          label: each.name,
          text: each.name,
          icon: each === current ? Check : undefined,
          run: () => void navigate({ to: '/$workspace', params: { workspace: each.slug } }),
        })),
        { id: 'all', label: 'All workspaces', icon: House, run: () => void navigate({ to: '/' }) },
      ]}
    >
      <AriaButton className="flex h-9 w-full items-center gap-2 rounded-md px-2 text-left hover:bg-hover">
        <span
          aria-hidden
          className="flex size-5 shrink-0 items-center justify-center rounded bg-accent text-xs font-semibold text-on-accent"
        >
          {(current?.name ?? 'A').slice(0, 1).toUpperCase()}
        </span>
        <span className="grow truncate font-semibold">{current?.name ?? 'Agent Platform'}</span>
        <ChevronsUpDown size={14} aria-hidden className="shrink-0 text-soft" />
        <span className="sr-only">Switch workspace</span>
      </AriaButton>
    </Menu>
  );
}

const THEMES: readonly (readonly [Theme, string, typeof Sun])[] = [
  ['system', 'System theme', Monitor],
  ['light', 'Light theme', Sun],
  ['dark', 'Dark theme', Moon],
];

function UserMenu() {
  const { user } = useWho();
  const [theme, setTheme] = useTheme();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const signOut = async () => {
    await call('deleteSession', {});
    await navigate({ to: '/login' });
    // By now no page displays cached data.
    queries.clear();
  };
  return (
    <div className="border-t border-line p-2">
      <Menu
        label="Account"
        entries={[
          ...THEMES.map(([id, label, icon]) => ({
            id,
            text: label,
            label: theme === id ? `${label} (current)` : label,
            icon,
            run: () => setTheme(id),
          })),
          { id: 'sign-out', label: 'Sign out', icon: LogOut, run: () => void signOut() },
        ]}
      >
        <AriaButton className="flex h-8 w-full items-center gap-2 rounded-md px-2 text-left hover:bg-hover">
          <span className="grow truncate text-soft">{user.display_name || user.email || 'You'}</span>
          <ChevronsUpDown size={14} aria-hidden className="shrink-0 text-soft" />
          <span className="sr-only">Theme and sign-out</span>
        </AriaButton>
      </Menu>
    </div>
  );
}
