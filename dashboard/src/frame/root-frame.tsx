import { Outlet } from '@tanstack/react-router';
import { Toasts } from '../ui/toast.tsx';
import { OfflineBar } from './offline-bar.tsx';

/** What is around every page. */
export function RootFrame() {
  return (
    <>
      <OfflineBar />
      <Outlet />
      <Toasts />
    </>
  );
}
