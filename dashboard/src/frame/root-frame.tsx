import { Outlet } from '@tanstack/react-router';
import { Toasts } from '../ui/toast.tsx';
import { OfflineBar } from './offline-bar.tsx';

/** Frame of every page. */
export function RootFrame() {
  return (
    <>
      <OfflineBar />
      <Outlet />
      <Toasts />
    </>
  );
}
