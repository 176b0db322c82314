import { Outlet } from '@tanstack/react-router';
import { Suspense } from 'react';
import { useWho, useWorkspaces } from '../api/session.ts';
import { Loading } from '../ui/loading.tsx';
import { PageKeys } from './page-keys.tsx';
import { Palette } from './palette.tsx';
import { SideBar } from './side-bar.tsx';

/** Side navigation, palette and keys, around the pages of people who are signed in. */
export function SignedInFrame() {
  return (
    <Suspense fallback={<Loading />}>
      <Frame />
    </Suspense>
  );
}

function Frame() {
  // Asked for here, so that no page below waits for them. Without a session the answer leads to the sign-in.
  useWho();
  useWorkspaces();
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
        Go to the page
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
