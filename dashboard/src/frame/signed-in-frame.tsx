import { useQuery } from '@tanstack/react-query';
import { Outlet, useLocation } from '@tanstack/react-router';
import { Suspense } from 'react';
import { whoQuery, workspacesQuery } from '../api/session.ts';
import { ApiError } from '../api-error.ts';
import { ErrorBox } from '../ui/error-box.tsx';
import { Loading } from '../ui/loading.tsx';
import { PageKeys } from './page-keys.tsx';
import { Palette } from './palette.tsx';
import { SideBar } from './side-bar.tsx';

/** Side navigation, command palette and shortcuts for signed-in users. */
export function SignedInFrame() {
  // Fetched here so that no page below has to wait for it.
  const who = useQuery(whoQuery);
  const workspaces = useQuery(workspacesQuery);
  if (who.data !== undefined && workspaces.data !== undefined) return <Frame />;
  const error = who.error ?? workspaces.error;
  // A 401 response redirects to the sign-in page.
  const isSignedOut = error instanceof ApiError && error.status === 401;
  return (
    <main className="p-6">
      {error !== null && !isSignedOut ? (
        <ErrorBox
          error={error}
          onRetry={() => {
            void who.refetch();
            void workspaces.refetch();
          }}
        />
      ) : (
        <Loading />
      )}
    </main>
  );
}

function Frame() {
  // The link to the page follows each navigation.
  useLocation();
  return (
    <div className="flex min-h-dvh flex-col md:flex-row">
      <a
        href={`${location.pathname}${location.search}#page`}
        onClick={(event) => {
          event.preventDefault();
          document.getElementById('page')?.focus();
        }}
        className="sr-only z-50 rounded-md bg-accent px-3 py-2 text-on-accent focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        Skip to content
      </a>
      <SideBar />
      <main id="page" tabIndex={-1} className="min-w-0 grow outline-none">
        <Suspense
          fallback={
            <div className="p-6">
              <Loading />
            </div>
          }
        >
          <Outlet />
        </Suspense>
      </main>
      <Palette />
      <PageKeys />
    </div>
  );
}
